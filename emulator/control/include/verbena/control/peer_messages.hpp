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
#include <string>

#include "verbena/control/messages.hpp"

namespace verbena::control {

struct PeerQuestion {
  IpAddress address;  // the peer's
  std::uint32_t qpn = 0;
  VERBENA_MESSAGE(kPeerQuestion) { a(m.address, m.qpn); }
};

enum class PeerStanding : std::uint8_t {
  kElsewhere = 0,  // perhaps at another emulator
  kRuns = 1,
  kStopped = 2,
  kEnded = 3,
  kClosed = 4,   // the process lives, but has closed the device
  kNobody = 5,   // no process has or had queue pairs with such numbers
  kNowhere = 6,  // no device has the address
};
enum class PeerQp : std::uint8_t { kUnknown = 0, kNone = 1, kNotReady = 2, kReady = 3, kError = 4 };

struct PeerNews {
  IpAddress address;
  std::uint32_t qpn = 0;
  PeerStanding standing = PeerStanding::kElsewhere;
  PeerQp queue_pair = PeerQp::kUnknown;
  std::uint32_t connected_to = 0;  // QPN that a ready queue pair is connected to; 0: unknown
  bool has_unread = false;         // the peer's socket holds packets that it has not read
  bool is_asker = false;           // the peer's process is the asker's own
  std::uint32_t pid = 0;
  std::string comm;
  VERBENA_MESSAGE(kPeerNews) {
    a(m.address, m.qpn, m.standing, m.queue_pair, m.connected_to, m.has_unread, m.is_asker, m.pid,
      m.comm);
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
  PeerQp queue_pair = PeerQp::kUnknown;
  std::uint32_t connected_to = 0;
  VERBENA_MESSAGE(kQpAnswer) { a(m.question, m.queue_pair, m.connected_to); }
};

}  // namespace verbena::control
