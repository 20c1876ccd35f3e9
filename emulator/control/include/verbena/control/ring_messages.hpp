// SPDX-License-Identifier: BSD-2-Clause
// The messages by which two contexts get a shared ring.
//
// A ring is made in four steps. No context waits for it: until the last step, and after PeerGone,
// UDP carries the packets.
//
//   writer            daemon            reader
//     | RingRequest ---> |                |
//     |                  | RingInbound -> |   [the ring]
//     |                  | <- RingAccepted|
//     | <--- RingOutbound|                |   [the ring], or none and the reason
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/address.hpp"
#include "verbena/control/messages.hpp"

namespace verbena::control {

// A request for a ring, by a context that is about to send to another one. It has no reply of its
// own, because a Refused would be taken for the answer to another request.
//
// In each of these messages `own` is an address of the port of the context that sends or gets the
// message. Two contexts have a ring for each pair of addresses by which they talk.
struct RingRequest {
  IpAddress address;  // the peer's
  std::uint32_t slot = 0;
  IpAddress own;
  VERBENA_MESSAGE(kRingRequest) { a(m.address, m.slot, m.own); }
};

// Tells the reader that this peer also sends through the ring, which is descriptor [0].
struct RingInbound {
  IpAddress address;  // the writer's
  std::uint32_t slot = 0;
  IpAddress own;
  VERBENA_MESSAGE(kRingInbound) { a(m.address, m.slot, m.own); }
};

// The reader says that it now reads the ring of this writer. Descriptor [0] is the handle of its
// waker, if it has one.
struct RingAccepted {
  IpAddress address;  // the writer's
  std::uint32_t slot = 0;
  IpAddress own;
  VERBENA_MESSAGE(kRingAccepted) { a(m.address, m.slot, m.own); }
};

// Gives the writer the ring as descriptor [0], and the handle, if there is one, as [1]. Without a
// descriptor there is no ring to this peer.
struct RingOutbound {
  IpAddress address;  // the reader's
  std::uint32_t slot = 0;
  std::string reason;         // why there is no ring, in one line
  bool peer_is_here = false;  // the peer is a context of this emulator
  IpAddress own;
  VERBENA_MESSAGE(kRingOutbound) { a(m.address, m.slot, m.reason, m.peer_is_here, m.own); }
};

// The context has ended, and its rings with it.
struct PeerGone {
  IpAddress address;
  std::uint32_t slot = 0;
  IpAddress own;
  VERBENA_MESSAGE(kPeerGone) { a(m.address, m.slot, m.own); }
};

}  // namespace verbena::control
