// SPDX-License-Identifier: BSD-2-Clause
// An engine's part in making shared rings; the emulator makes and ends them. Owned by the attached
// engine. Any thread may seek a ring; messages are handled under the client's lock.
//
// VERBENA_LINK says how packets travel between contexts of one emulator: `udp` is always UDP; `shm`
// is shared rings, with a complaint where there can be none; `auto` (the default) is shared rings
// where there can be one. It is read when a context is opened. An unknown word costs one line on
// standard error.
#pragma once

#include <cstdint>

#include "verbena/base/types.hpp"
#include "verbena/context/asked_peers.hpp"
#include "verbena/context/daemon_client.hpp"
#include "verbena/context/port.hpp"
#include "verbena/control/ring_messages.hpp"
#include "verbena/link/peer_link.hpp"

namespace verbena::provider {

enum class LinkChoice : std::uint8_t { kUdp, kSharedMemory, kAuto };

class RingRequests {
 public:
  RingRequests(DaemonClient& client, const Port& port);
  void attach(link::PeerLink& peers) { peers_ = &peers; }

  LinkChoice choice() const noexcept { return choice_; }
  // Asks for a ring to this peer, if rings are wanted and there is none yet. UDP carries the
  // packets until it is there.
  void seek(const link::Peer& peer) noexcept;
  // Asks for a ring to another engine of this port, given by one of its queue pair numbers.
  void seek(Qpn number) noexcept;
  // Returns whether the emulator may still answer whether there will be a ring to this peer.
  bool is_waiting_for(const link::Peer& peer, TimeNs now) noexcept {
    return asked_.is_waiting(peer, now);
  }

  void on_inbound(const control::RingInbound& offer, DaemonClient::Descriptors& fds);
  void on_outbound(const control::RingOutbound& given, DaemonClient::Descriptors& fds);
  void on_peer_gone(const control::PeerGone& gone);

 private:
  DaemonClient& client_;
  const Port& port_;
  link::PeerLink* peers_ = nullptr;
  const LinkChoice choice_;
  AskedPeers asked_;
};

}  // namespace verbena::provider
