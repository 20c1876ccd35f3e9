// SPDX-License-Identifier: BSD-2-Clause
#include "ring_broker.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>

namespace verbena::daemon {
std::string RingBroker::reason_against(const Session& writer, const Session* reader) const {
  if (reader == nullptr) return "the peer is no context of this emulator";
  if (reader->is_behind()) return "the peer does not read what the emulator tells it";
  const auto count_of = [this](const Session& session) {
    const auto found = counts_.find(session.id);
    return found == counts_.end() ? Count{} : found->second;
  };
  if (std::max(count_of(writer).outbound, count_of(*reader).inbound) >= kRingsPerContext) {
    return "a context may have " + std::to_string(kRingsPerContext) + " rings in each direction";
  }
  const limits::Holder process = writer.info.pid;
  if (!shares_.rings.may_take(process)) {
    return "process " + std::to_string(process) + " has " +
           std::to_string(shares_.rings.held_by(process)) + " rings, and " +
           std::to_string(shares_.rings.left()) +
           " are left for all others: no process may have more than that";
  }
  if (!shares_.descriptors.may_take(process, kDescriptorsPerRing)) {
    return "process " + std::to_string(process) + " has its share of the emulator's descriptors";
  }
  return "";
}

void RingBroker::on_request(Session& writer, Session* reader, const control::RingRequest& request) {
  Key key{writer.id, 0, request.own, request.address};
  if (reader != nullptr) {
    key.reader = reader->id;
    const auto known = rings_.find(key);
    if (known != rings_.end() && !known->second.memory.is_closed()) return;
    // One side has closed the ring because the other broke the rules.
    if (known != rings_.end()) erase(known);
  }
  std::string reason = reason_against(writer, reader);
  if (reader != nullptr && reason.empty()) reason = make(writer, *reader, key);
  if (!reason.empty()) {
    writer.send(control::RingOutbound{request.address, request.slot, reason, reader != nullptr,
                                      request.own},
                control::kDaemonSequence);
  }
}

std::string RingBroker::make(Session& writer, Session& reader, const Key& key) {
  const auto refused = [](const link::SocketError& error) {
    spdlog::warn("{}", error.text);
    return "in the emulator, " + error.text;
  };
  const auto created = link::SharedRing::create();
  if (!created) return refused(created.error());
  control::UniqueFd fd(created.value());
  auto memory = link::SharedRing::map(fd.get());
  if (!memory) return refused(memory.error());
  const auto made =
      rings_.emplace(key, Ring{&writer, &reader, std::move(memory.value()), std::move(fd)});
  offer(key, made.first->second);
  ++counts_[writer.id].outbound;
  ++counts_[reader.id].inbound;
  shares_.rings.take(writer.info.pid);
  shares_.descriptors.take(writer.info.pid, kDescriptorsPerRing);
  return "";
}

void RingBroker::offer(const Key& key, const Ring& ring) {
  const int fds[] = {ring.fd.get()};
  ring.reader->send(control::RingInbound{key.from, ring.writer->context->slot, key.to},
                    control::kDaemonSequence, fds);
}

void RingBroker::give_back_descriptors(Ring& ring) {
  if (!ring.fd) return;
  ring.fd.reset();
  shares_.descriptors.give_back(ring.writer->info.pid, kDescriptorsPerRing);
}

RingBroker::Rings::iterator RingBroker::erase(Rings::iterator at) {
  Ring& ring = at->second;
  give_back_descriptors(ring);
  shares_.rings.give_back(ring.writer->info.pid);
  --counts_[ring.writer->id].outbound;
  --counts_[ring.reader->id].inbound;
  return rings_.erase(at);
}

void RingBroker::on_accepted(Session& writer, Session& reader,
                             const control::RingAccepted& accepted,
                             const control::UniqueFd& handle) {
  const auto ring = rings_.find({writer.id, reader.id, accepted.address, accepted.own});
  if (ring == rings_.end() || !ring->second.fd) return;
  const int fds[] = {ring->second.fd.get(), handle.get()};
  const control::RingOutbound given{accepted.own, reader.context->slot, "", true, accepted.address};
  writer.send(given, control::kDaemonSequence, std::span(fds, handle ? 2 : 1));
  give_back_descriptors(ring->second);
}

void RingBroker::on_address_opened(Session& reader, const IpAddress& address) {
  for (const auto& [key, ring] : rings_) {
    if (ring.reader != &reader || !(key.to == address) || !ring.fd) continue;
    offer(key, ring);
  }
}

void RingBroker::on_context_closed(Session& gone) {
  struct Survivor {
    Session* session;
    IpAddress gone;  // `gone` and `own` are the addresses by which the two talked
    IpAddress own;
    auto operator<=>(const Survivor&) const = default;
  };
  std::set<Survivor> survivors;
  for (auto at = rings_.begin(); at != rings_.end();) {
    Ring& ring = at->second;
    if (ring.writer != &gone && ring.reader != &gone) {
      ++at;
      continue;
    }
    ring.memory.close();
    const bool wrote = ring.writer == &gone;
    Session* const other = wrote ? ring.reader : ring.writer;
    const auto& [writer, reader, from, to] = at->first;
    if (other != &gone) survivors.insert({other, wrote ? from : to, wrote ? to : from});
    at = erase(at);
  }
  counts_.erase(gone.id);
  for (const Survivor& s : survivors) {
    s.session->send(control::PeerGone{s.gone, gone.context->slot, s.own}, control::kDaemonSequence);
  }
}

}  // namespace verbena::daemon
