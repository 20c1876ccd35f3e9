// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/ring_requests.hpp"

#include <atomic>
#include <span>
#include <string>
#include <utility>

#include "verbena/control/user_lines.hpp"
#include "verbena/link/clock.hpp"
#include "verbena/report/explain.hpp"
#include "verbena/report/setting.hpp"

namespace verbena::provider {
namespace {

LinkChoice link_choice() {
  const char* const text = setting("VERBENA_LINK");
  const std::string word = text == nullptr ? "" : text;
  if (word == "udp") return LinkChoice::kUdp;
  if (word == "shm") return LinkChoice::kSharedMemory;
  static std::atomic<bool> told{false};  // once per process
  if (!word.empty() && word != "auto" && !told.exchange(true)) {
    control::tell_user("VERBENA_LINK=%s is none of udp, shm and auto; using auto", word.c_str());
  }
  return LinkChoice::kAuto;
}

// Says why UDP carries the packets to this peer: a complaint if the user wants rings only.
// Otherwise it is worth an explanation if the peer is a context of the same emulator.
void tell_of_udp(LinkChoice choice, const IpAddress& peer, bool peer_is_here,
                 const std::string& reason) {
  if (choice == LinkChoice::kSharedMemory) {
    control::tell_user("VERBENA_LINK=shm, but UDP carries the packets to %s: %s",
                       peer.to_string().c_str(), reason.c_str());
  } else if (peer_is_here) {
    explain("no shared ring to %s: %s; UDP carries the packets", peer.to_string().c_str(),
            reason.c_str());
  }
}

}  // namespace

RingRequests::RingRequests(DaemonClient& client, const Port& port)
    : client_(client), port_(port), choice_(link_choice()) {}

void RingRequests::seek(Qpn number) noexcept {
  seek(link::Peer{peers_->self().address, number.slot()});
}

// Does not wait if the emulator cannot take the request now.
void RingRequests::seek(const link::Peer& peer) noexcept {
  if (choice_ == LinkChoice::kUdp || peer.slot == 0) return;
  if (peers_->carrier_to(peer) != link::Carrier::kUdp) return;
  if (!asked_.must_ask(peer, link::monotonic_now_ns())) return;
  client_.tell(control::RingRequest{peer.address, peer.slot, peers_->address_of(peer.source)});
}

void RingRequests::on_inbound(const control::RingInbound& offer, DaemonClient::Descriptors& fds) {
  const auto source = port_.source_at(offer.own);
  if (!source || !fds[0]) return;
  const link::Peer peer{offer.address, offer.slot, *source};
  auto ring = link::SharedRing::map(fds[0].get());
  if (!ring) return explain("%s; the peer goes on by UDP", ring.error().text.c_str());
  peers_->add_inbound(peer, std::move(ring.value()));
  seek(peer);  // for what is sent back to the peer
  const int handle[] = {peers_->waker_handle()};
  client_.tell(control::RingAccepted{offer.address, offer.slot, offer.own}, 0,
               std::span(handle, handle[0] >= 0 ? 1 : 0));
}

void RingRequests::on_outbound(const control::RingOutbound& given, DaemonClient::Descriptors& fds) {
  const auto source = port_.source_at(given.own);
  if (!source) return;
  const link::Peer peer{given.address, given.slot, *source};
  const auto go_on_by_udp = [&](const std::string& reason) {
    asked_.note_refusal(peer);
    tell_of_udp(choice_, peer.address, given.peer_is_here, reason);
  };
  if (!fds[0]) {
    const bool is_lost = given.reason.empty();
    return go_on_by_udp(is_lost ? "this program has no descriptor left for it" : given.reason);
  }
  auto ring = link::SharedRing::map(fds[0].get());
  if (!ring) return go_on_by_udp(ring.error().text);
  link::WakerHandle handle(fds[1].release());
  if (!peers_->add_outbound(peer, std::move(ring.value()), std::move(handle))) {
    return go_on_by_udp("this context has too many rings");
  }
  asked_.forget(peer);
}

void RingRequests::on_peer_gone(const control::PeerGone& gone) {
  const auto source = port_.source_at(gone.own);
  if (!source) return;
  peers_->remove({gone.address, gone.slot, *source});
  asked_.forget({gone.address, gone.slot, *source});
}

}  // namespace verbena::provider
