// SPDX-License-Identifier: BSD-2-Clause
// How two contexts come by a shared ring.
//
// It is made in four steps. Nobody waits for it: until the last one, and after PeerGone,
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

// From a context that is about to send to another one: it would like a ring to it. Has no reply
// of its own (a Refused would be taken for the answer to another request).
//
// In each of these messages `own` is the address of the context's own port that is meant: two
// contexts have a ring for each pair of addresses by which they talk.
struct RingRequest {
  IpAddress address;  // of the peer
  std::uint32_t slot = 0;
  IpAddress own;
  VERBENA_MESSAGE(kRingRequest) { a(m.address, m.slot, m.own); }
};

// To the reader, with the ring as descriptor [0]: what this peer sends comes from there, too.
struct RingInbound {
  IpAddress address;  // of the writer
  std::uint32_t slot = 0;
  IpAddress own;
  VERBENA_MESSAGE(kRingInbound) { a(m.address, m.slot, m.own); }
};

// From the reader: it looks into the ring of this writer now. With the handle of its waker as
// descriptor [0], if it has one.
struct RingAccepted {
  IpAddress address;  // of the writer
  std::uint32_t slot = 0;
  IpAddress own;
  VERBENA_MESSAGE(kRingAccepted) { a(m.address, m.slot, m.own); }
};

// To the writer, with the ring as descriptor [0] and the handle, if there is one, as [1]; without a
// ring there is none to this peer.
struct RingOutbound {
  IpAddress address;  // of the reader
  std::uint32_t slot = 0;
  std::string reason;         // why there is none, in one line
  bool peer_is_here = false;  // a context of this emulator
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
