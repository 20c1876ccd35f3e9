#include "ring_broker.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace verbena::daemon {
namespace {

// It answers nothing, so its number means nothing.
constexpr std::uint32_t kUnasked = control::kDaemonSequence;

const IpAddress& address_of(const Session& session) {
  return session.context->port->info().address;
}

}  // namespace

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
  if (reader != nullptr) {
    const auto known = rings_.find({writer.id, reader->id});
    if (known != rings_.end() && !known->second.memory.is_closed()) return;
    // One side found that the other broke the rules.
    if (known != rings_.end()) erase(known);
  }
  std::string reason = reason_against(writer, reader);
  if (reason.empty()) reason = make(writer, *reader);
  if (!reason.empty()) {
    writer.send(
        control::RingOutbound{request.address, request.slot, reason, reader != nullptr}, kUnasked);
  }
}

std::string RingBroker::make(Session& writer, Session& reader) {
  const auto refused = [](const link::SocketError& error) {
    spdlog::warn("{}", error.text);
    return "in the emulator, " + error.text;
  };
  const auto created = link::SharedRing::create();
  if (!created) return refused(created.error());
  control::UniqueFd fd(created.value());
  auto memory = link::SharedRing::map(fd.get());
  if (!memory) return refused(memory.error());
  const int fds[] = {fd.get()};
  reader.send(control::RingInbound{address_of(writer), writer.context->slot}, kUnasked, fds);
  rings_.emplace(Key{writer.id, reader.id},
                 Ring{&writer, &reader, std::move(memory.value()), std::move(fd)});
  ++counts_[writer.id].outbound;
  ++counts_[reader.id].inbound;
  shares_.rings.take(writer.info.pid);
  shares_.descriptors.take(writer.info.pid, kDescriptorsPerRing);
  return "";
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

void RingBroker::on_accepted(Session& writer, Session& reader, const control::UniqueFd& rope) {
  const auto ring = rings_.find({writer.id, reader.id});
  if (ring == rings_.end() || !ring->second.fd) return;
  const int fds[] = {ring->second.fd.get(), rope.get()};
  writer.send(control::RingOutbound{address_of(reader), reader.context->slot, "", true}, kUnasked,
              std::span(fds, rope ? 2 : 1));
  give_back_descriptors(ring->second);
}

void RingBroker::on_context_closed(Session& gone) {
  const control::PeerGone word{address_of(gone), gone.context->slot};
  std::map<Session::Id, Session*> survivors;
  for (auto at = rings_.begin(); at != rings_.end();) {
    Ring& ring = at->second;
    if (ring.writer != &gone && ring.reader != &gone) {
      ++at;
      continue;
    }
    ring.memory.close();
    Session* const other = ring.writer == &gone ? ring.reader : ring.writer;
    if (other != &gone) survivors.emplace(other->id, other);
    at = erase(at);
  }
  counts_.erase(gone.id);
  for (const auto& [id, survivor] : survivors) survivor->send(word, kUnasked);
}

}  // namespace verbena::daemon
