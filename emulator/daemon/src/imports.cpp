// SPDX-License-Identifier: BSD-2-Clause
#include "imports.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "verbena/control/import_messages.hpp"

namespace verbena::daemon {

using control::Incoming;

namespace {

control::Error owner_is_gone() { return {ENOENT, "the context that it is of is gone"}; }

}  // namespace

void Imports::on_import(Session& importer, const Incoming& in) {
  const auto request = importer.decoded<control::Import>(in);
  if (!request) return;
  Session* const owner = owner_for(importer, request->owner);
  if (owner == nullptr) return importer.refuse(in.header.sequence, owner_is_gone());
  if (!questions_.may_ask(importer, in, *owner)) return;
  const control::ExportQuery question{clients_.next_ticket(), request->kind, request->number};
  questions_.add(question.kType, question.ticket,
                 {importer.id, importer.info.pid, in.header.sequence, owner->id, owner_is_gone()});
  owner->send(question, clients_.next_sequence());
}

// Returns the owner that the importer named first: by now another context's connection may have the
// same name.
Session* Imports::owner_for(const Session& importer, const std::string& name) {
  const auto known = owners_.find(importer.id);
  if (known != owners_.end()) return clients_.find(known->second);
  const auto owner = std::ranges::find_if(clients_.contexts(), [&](const auto& entry) {
    return !name.empty() && entry.second->peer_name() == name;
  });
  if (owner == clients_.contexts().end()) return nullptr;
  owners_[importer.id] = owner->second->id;
  return owner->second;
}

void Imports::on_exported(Session& owner, const Incoming& in) {
  const auto reply = control::decode<control::Exported>(in.payload);
  if (!reply) return;
  const auto question = questions_.take(control::ExportQuery::kType, reply->ticket, owner);
  Session* const importer = question ? clients_.find(question->asker) : nullptr;
  if (importer == nullptr) return;
  if (reply->code != 0) {
    return importer->refuse(question->sequence, {static_cast<int>(reply->code), reply->text});
  }
  const int memory[] = {in.fds[0].get()};
  importer->send(control::Imported{reply->object}, question->sequence,
                 std::span(memory).first(in.fds[0] ? 1 : 0));
}

// Tells all contexts that import from this owner, because only they know what they have imported.
void Imports::on_region_changed(Session& owner, const Incoming& in) {
  auto change = owner.decoded<control::RegionChanged>(in);
  if (!change) return;
  const std::uint32_t sequence = in.header.sequence;
  if (orders_.has_one_of(owner.id)) {
    return owner.refuse(sequence, {EBUSY, "the change before is not settled yet"});
  }
  OutstandingOrders::Order order{
      owner.id, {}, [sequence](Session& asker, control::SilentProcesses silent) {
        asker.send(control::RegionSettled{std::move(silent)}, sequence);
      }};
  change->ticket = clients_.next_ticket();
  for (const auto& [importer, of] : owners_) {
    Session* const told = of == owner.id ? clients_.find(importer) : nullptr;
    if (told == nullptr) continue;
    told->send(*change, clients_.next_sequence());
    order.awaited.insert(importer);
  }
  orders_.begin(change->ticket, std::move(order));
}

void Imports::on_region_followed(const Session& importer, const Incoming& in) {
  const auto told = control::decode<control::RegionFollowed>(in.payload);
  if (told) orders_.on_followed(importer, told->ticket);
}

void Imports::on_client_gone(Session::Id gone) {
  owners_.erase(gone);
  // The importer keeps its entry, because another context may have the name from now on.
  for (const auto& [importer, owner] : owners_) {
    Session* const told = owner == gone ? clients_.find(importer) : nullptr;
    if (told != nullptr) told->send(control::OwnerGone{}, clients_.next_sequence());
  }
}

}  // namespace verbena::daemon
