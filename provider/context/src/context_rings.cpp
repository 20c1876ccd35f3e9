// SPDX-License-Identifier: BSD-2-Clause
// A context's part in the making of shared rings; the emulator makes and ends them.
#include <sys/socket.h>

#include "verbena/context/context.hpp"
#include "verbena/control/ring_messages.hpp"
#include "verbena/report/explain.hpp"

namespace verbena::provider {

// Only for queue pairs that have one peer, who is going to answer.
void Context::seek_ring(Qp& qp) noexcept {
  qp.has_new_peer = false;
  if (qp.pair->transport() == Transport::kUd) return;
  const queue::Endpoint& endpoint = qp.pair->endpoint();
  const wire::Destination& to = endpoint.destination;
  seek_ring_to({to.address, endpoint.peer.slot(), to.source});
}

void Context::seek_ring_to(Qpn number) noexcept {
  seek_ring_to({peers_->self().address, number.slot()});
}

// An emulator that takes nothing now is no reason to wait.
void Context::seek_ring_to(const link::Peer& peer) noexcept {
  if (link_choice_ == LinkChoice::kUdp || peer.slot == 0) return;
  if (peers_->carrier_to(peer) != link::Carrier::kUdp) return;
  if (!asked_peers_.must_ask(peer)) return;
  tell(control::RingRequest{peer.address, peer.slot, peers_->address_of(peer.source)});
}

// Under control_lock_, as all that handles messages.
void Context::handle_ring_inbound(control::Incoming&& message) {
  const auto offer = control::decode<control::RingInbound>(message.payload);
  const auto source = offer ? source_at(offer->own) : std::nullopt;
  if (!source || !message.fds[0]) return;
  const link::Peer peer{offer->address, offer->slot, *source};
  auto ring = link::SharedRing::map(message.fds[0].get());
  if (!ring) return provider::explain("%s; the peer goes on by UDP", ring.error().text.c_str());
  peers_->add_inbound(peer, std::move(ring.value()));
  seek_ring_to(peer);  // for what is answered
  const int rope[] = {peers_->bell_rope()};
  const control::RingAccepted accepted{offer->address, offer->slot, offer->own};
  (void)control::send_packet(channel_.fd(), control::encode(accepted, 0),
                             std::span(rope, rope[0] >= 0 ? 1 : 0), MSG_DONTWAIT);
}

void Context::handle_ring_outbound(control::Incoming&& message) {
  const auto given = control::decode<control::RingOutbound>(message.payload);
  const auto source = given ? source_at(given->own) : std::nullopt;
  if (!source) return;
  const link::Peer peer{given->address, given->slot, *source};
  const auto go_on_by_udp = [&](const std::string& reason) {
    tell_of_udp(link_choice_, peer.address, given->peer_is_here, reason);
  };
  if (!message.fds[0]) return go_on_by_udp(given->reason);
  auto ring = link::SharedRing::map(message.fds[0].get());
  if (!ring) return go_on_by_udp(ring.error().text);
  link::BellRope rope(message.fds[1].release());
  if (!peers_->add_outbound(peer, std::move(ring.value()), std::move(rope))) {
    return go_on_by_udp("this context has too many rings");
  }
  asked_peers_.forget(peer);
}

// --- what a link says of the way to a queue pair -----------------------------------------------

wire::Transmitter::Room Context::room_at(const wire::Destination& to, Qpn qp, TimeNs now) noexcept {
  return peers_->room_at({to.address, qp.slot(), to.source}, now);
}

std::optional<wire::Transmitter::Reading> Context::reading_at(const wire::Destination& to,
                                                              Qpn qp) noexcept {
  return peers_->reading_at({to.address, qp.slot(), to.source});
}

// Rings lead to a context's first slot: to queue pairs of its further ones all comes by UDP.
bool Context::hears_by_ring(const wire::Destination& from, Qpn peer, Qpn own) noexcept {
  return own.slot() == peers_->self().slot &&
         peers_->hears_by_ring({from.address, peer.slot(), from.source});
}

wire::Transmitter::Packing Context::packing(const wire::Destination& to, Qpn qp) noexcept {
  return peers_->packing({to.address, qp.slot(), to.source});
}

}  // namespace verbena::provider
