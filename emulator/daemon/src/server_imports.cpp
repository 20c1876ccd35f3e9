// SPDX-License-Identifier: BSD-2-Clause
// One process imports what another one's context has made: the question goes to the owner, its
// answer back to the importer. Who was given the owner's descriptor knows the name of its socket,
// which nobody could guess. And how many questions of this and other kinds may wait.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "server.hpp"
#include "verbena/control/import_messages.hpp"

namespace verbena::daemon {

using control::Incoming;

void Server::on_import(Session& session, const Incoming& in) {
  const auto request = control::decode<control::Import>(in.payload);
  if (!request) return session.refuse(in.header.sequence, request.error());
  Session* const owner = owner_for(session, request->owner);
  if (owner == nullptr) {
    return session.refuse(in.header.sequence, {ENOENT, "the context that it is of is gone"});
  }
  if (!may_ask(session, in, *owner)) return;
  const std::uint32_t ticket = clients_.next_ticket();
  imports_[ticket] = {session.id, session.info.pid, in.header.sequence, owner->id};
  owner->send(control::ExportQuery{ticket, request->kind, request->number},
              clients_.next_sequence());
}

// The one that it named first: by now another context's connection may have its name.
Session* Server::owner_for(const Session& importer, const std::string& name) {
  const auto known = owners_.find(importer.id);
  if (known != owners_.end()) return clients_.find(known->second);
  const auto owner = std::ranges::find_if(clients_.contexts(), [&](const auto& entry) {
    return !name.empty() && entry.second->peer_name() == name;
  });
  if (owner == clients_.contexts().end()) return nullptr;
  owners_[importer.id] = owner->second->id;
  return owner->second;
}

void Server::on_exported(Session& session, const Incoming& in) {
  const auto reply = control::decode<control::Exported>(in.payload);
  const auto pending = reply ? imports_.find(reply->ticket) : imports_.end();
  if (pending == imports_.end() || pending->second.owner != session.id) return;
  const PendingImport import = pending->second;
  imports_.erase(pending);
  Session* const asker = clients_.find(import.asker);
  if (asker == nullptr) return;
  if (reply->code != 0) {
    return asker->refuse(import.sequence, {static_cast<int>(reply->code), reply->text});
  }
  const int memory[] = {in.fds[0].get()};
  asker->send(control::Imported{reply->object}, import.sequence,
              std::span(memory).first(in.fds[0] ? 1 : 0));
}

// All that import from there are told: what they have imported, only they know.
void Server::on_region_changed(Session& session, const Incoming& in) {
  auto change = session.decoded<control::RegionChanged>(in);
  if (!change) return;
  const bool waits = std::ranges::any_of(
      waits_, [&](const auto& entry) { return entry.second.asker == session.id; });
  if (waits) {
    return session.refuse(in.header.sequence, {EBUSY, "the change before is not settled yet"});
  }
  const std::uint32_t sequence = in.header.sequence;
  Wait wait{session.id, {}, [sequence](Session& owner, control::SilentProcesses silent) {
              owner.send(control::RegionSettled{std::move(silent)}, sequence);
            }};
  change->ticket = clients_.next_ticket();
  for (const auto& [importer, owner] : owners_) {
    Session* const told = owner == session.id ? clients_.find(importer) : nullptr;
    if (told == nullptr) continue;
    told->send(*change, clients_.next_sequence());
    wait.awaited.insert(importer);
  }
  begin_wait(change->ticket, std::move(wait));
}

void Server::on_region_followed(Session& session, const Incoming& in) {
  const auto told = control::decode<control::RegionFollowed>(in.payload);
  if (told) note_followed(session, told->ticket);
}

bool Server::may_ask(Session& asker, const Incoming& in, const Session& owner) {
  std::size_t of_asker = 0;
  std::size_t to_owner = 0;
  const auto count = [&](const auto& questions) {
    for (const auto& [ticket, question] : questions) {
      if (question.process == asker.info.pid) ++of_asker;
      if (question.owner == owner.id) ++to_owner;
    }
  };
  count(imports_);
  count(receiver_calls_);
  count(raised_);
  const bool may_ask = of_asker < kQuestionsOfOne && to_owner < kQuestionsToOne;
  if (may_ask && !owner.is_behind()) return true;
  asker.refuse(in.header.sequence,
               {EAGAIN, "too many questions to other contexts wait for answers"});
  return false;
}

void Server::end_imports_of(Session::Id gone) {
  std::erase_if(imports_, [&](const auto& entry) {
    const PendingImport& import = entry.second;
    Session* const asker = clients_.find(import.asker);
    if (import.owner == gone && asker != nullptr) {
      asker->refuse(import.sequence, {ENOENT, "the context that it is of is gone"});
    }
    return import.owner == gone || import.asker == gone;
  });
  owners_.erase(gone);
  // Who imported from it keeps its entry: the name may be another's from now on.
  for (const auto& [importer, owner] : owners_) {
    Session* const session = owner == gone ? clients_.find(importer) : nullptr;
    if (session == nullptr) continue;
    session->send(control::OwnerGone{}, clients_.next_sequence());
  }
}

}  // namespace verbena::daemon
