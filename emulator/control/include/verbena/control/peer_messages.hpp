// SPDX-License-Identifier: BSD-2-Clause
// These messages tell a context what has become of a peer that does not answer. The daemon knows
// which process the peer is and whether it is stopped, and says so in a PeerNews. If the process
// runs, the daemon asks it for the state of its queue pair and tells that in a second PeerNews.
//
//   asker's context        daemon            peer's context
//     | PeerQuestion ------> |                     |
//     | <--------- PeerNews  | QpQuestion -------->|
//     | <--------- PeerNews  | <--------- QpAnswer |
//
// None of these messages has a reply that the sender waits for.
#pragma once

#include <cstdint>

#include "verbena/base/peer_report.hpp"
#include "verbena/control/messages.hpp"

namespace verbena::control {

struct PeerQuestion {
  IpAddress address;  // the peer's
  std::uint32_t qpn = 0;
  VERBENA_MESSAGE(kPeerQuestion) { a(m.address, m.qpn); }
};

struct PeerNews {
  IpAddress address;
  std::uint32_t qpn = 0;
  PeerReport report;
  VERBENA_MESSAGE(kPeerNews) {
    auto& r = m.report;
    a(m.address, m.qpn, r.standing, r.queue_pair, r.connected_to, r.has_unread, r.is_own_process,
      r.pid, r.name);
  }
};

struct QpQuestion {
  IpAddress asker;
  std::uint32_t asker_slot = 0;
  IpAddress address;  // the peer's, as the asker names it
  std::uint32_t qpn = 0;
  VERBENA_MESSAGE(kQpQuestion) { a(m.asker, m.asker_slot, m.address, m.qpn); }
};

struct QpAnswer {
  QpQuestion question;
  PeerReport::QueuePair queue_pair = PeerReport::QueuePair::kUnknown;
  std::uint32_t connected_to = 0;
  VERBENA_MESSAGE(kQpAnswer) { a(m.question, m.queue_pair, m.connected_to); }
};

}  // namespace verbena::control
