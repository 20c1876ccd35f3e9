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
  std::size_t outbound = 0;
  std::size_t inbound = 0;
  for (const auto& [key, ring] : rings_) {
    outbound += key.first == writer.id ? 1 : 0;
    inbound += key.second == reader->id ? 1 : 0;
  }
  if (std::max(outbound, inbound) < kRingsPerContext) return "";
  return "a context may have " + std::to_string(kRingsPerContext) + " rings in each direction";
}

void RingBroker::on_request(Session& writer, Session* reader, const control::RingRequest& request) {
  if (reader != nullptr) {
    const auto known = rings_.find({writer.id, reader->id});
    if (known != rings_.end() && !known->second.memory.is_closed()) return;
    // One side found that the other broke the rules.
    if (known != rings_.end()) rings_.erase(known);
  }
  std::string reason = reason_against(writer, reader);
  if (reason.empty() && !make(writer, *reader)) reason = "the system gives no more memory for it";
  if (!reason.empty()) {
    writer.send(control::RingOutbound{request.address, request.slot, reason}, kUnasked);
  }
}

bool RingBroker::make(Session& writer, Session& reader) {
  const auto created = link::SharedRing::create();
  if (!created) {
    spdlog::warn("{}", created.error().text);
    return false;
  }
  control::UniqueFd fd(created.value());
  auto memory = link::SharedRing::map(fd.get());
  if (!memory) {
    spdlog::warn("{}", memory.error().text);
    return false;
  }
  const int fds[] = {fd.get()};
  reader.send(control::RingInbound{address_of(writer), writer.context->slot}, kUnasked, fds);
  rings_.emplace(Key{writer.id, reader.id},
                 Ring{&writer, &reader, std::move(memory.value()), std::move(fd)});
  return true;
}

void RingBroker::on_accepted(Session& writer, Session& reader, const control::UniqueFd& rope) {
  const auto ring = rings_.find({writer.id, reader.id});
  if (ring == rings_.end() || !ring->second.fd) return;
  const int fds[] = {ring->second.fd.get(), rope.get()};
  writer.send(control::RingOutbound{address_of(reader), reader.context->slot, ""}, kUnasked,
              std::span(fds, rope ? 2 : 1));
  ring->second.fd.reset();
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
    at = rings_.erase(at);
  }
  for (const auto& [id, survivor] : survivors) survivor->send(word, kUnasked);
}

}  // namespace verbena::daemon
