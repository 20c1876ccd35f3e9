// SPDX-License-Identifier: BSD-2-Clause
// What has become of a peer that does not answer: a context asks the emulator, which knows whose
// process that is and whether it is stopped. One that runs is asked for the state of its queue
// pair, which is told in a second PeerNews.
//
//   asker's context        daemon            peer's context
//     | PeerQuestion ------> |                     |
//     | <--------- PeerNews  | QpQuestion -------->|
//     | <--------- PeerNews  | <--------- QpAnswer |
//
// None of them has a reply of its own.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/control/messages.hpp"

namespace verbena::control {

struct PeerQuestion {
  IpAddress address;  // of the peer
  std::uint32_t qpn = 0;
  VERBENA_MESSAGE(kPeerQuestion) { a(m.address, m.qpn); }
};

enum class PeerStanding : std::uint8_t { kElsewhere = 0, kRuns = 1, kStopped = 2, kEnded = 3 };
enum class PeerQp : std::uint8_t { kUnknown = 0, kNone = 1, kNotReady = 2, kReady = 3, kError = 4 };

struct PeerNews {
  IpAddress address;
  std::uint32_t qpn = 0;
  PeerStanding standing = PeerStanding::kElsewhere;
  PeerQp queue_pair = PeerQp::kUnknown;
  std::uint32_t connected_to = 0;  // the QPN that a ready one is connected to; 0: unknown
  bool has_unread = false;         // its socket holds what it has not read
  std::uint32_t pid = 0;
  std::string comm;
  VERBENA_MESSAGE(kPeerNews) {
    a(m.address, m.qpn, m.standing, m.queue_pair, m.connected_to, m.has_unread, m.pid, m.comm);
  }
};

struct QpQuestion {
  IpAddress asker;
  std::uint32_t asker_slot = 0;
  IpAddress address;  // of the peer, as the asker names it
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
