// SPDX-License-Identifier: BSD-2-Clause
// Messages about XRC domains that a file names and that all processes of the emulator share: which
// contexts have a domain open, and how they find each other through it. The packets go from context
// to context.
//
// A receiver (an XRC_RECV queue pair) that gets a request for an SRQ of another context needs a
// proxy there. No thread waits for it: the peer repeats the packet, and with it the question is
// repeated.
//
//   receiver's context        daemon            SRQ's context
//     | ProxyWanted -----------> | ProxyWanted ----->|   makes it, or changes its attributes
//     | <----------- ProxyAnswer | <----- ProxyAnswer|   also when the context is gone
//     | ProxiesReleased -------> | ProxiesReleased ->|   ends them
//
// A further handle of a receiver (ibv_open_qp) in another context acts on it through the daemon:
//
//   handle's context          daemon            receiver's context
//     | ReceiverCall ----------> | ReceiverCall ---->|
//     | <- ReceiverDone, Refused | <- ReceiverAnswer |
//     | <--------- ReceiverEvent | <--- ReceiverEvent|   to each that has it open
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "verbena/control/messages.hpp"

namespace verbena::control {

// Opens the domain that a file names by device and inode. The daemon refuses with EINVAL if
// `exclusive` is set and the domain exists, and with EAGAIN if it does not exist and `create` is
// not set. The daemon counts how often a context has a domain open.
struct OpenDomain {
  std::uint64_t file_device = 0;
  std::uint64_t inode = 0;
  bool create = false;
  bool exclusive = false;
  VERBENA_MESSAGE(kOpenDomain) { a(m.file_device, m.inode, m.create, m.exclusive); }
};

// Shared domains have numbers with kSharedDomain set. A context may use other numbers for its own.
inline constexpr std::uint32_t kSharedDomain = 0x80000000u;
struct DomainOpened {
  std::uint32_t number = 0;
  VERBENA_MESSAGE(kDomainOpened) { a(m.number); }
};

// The daemon answers with Ack.
struct CloseDomain {
  std::uint32_t number = 0;
  VERBENA_MESSAGE(kCloseDomain) { a(m.number); }
};

// The fields of queue::ProxyQp.
struct ProxyWanted {
  std::uint32_t receiver = 0;
  std::uint32_t line = 0;
  std::uint32_t domain = 0;
  std::uint32_t srq = 0;
  std::uint32_t first = 0;
  std::uint32_t mtu = 0;
  std::uint32_t access_flags = 0;
  std::uint8_t max_dest_rd_atomic = 0;
  std::uint8_t min_rnr_timer = 0;
  std::uint32_t peer = 0;
  std::uint16_t peer_lid = 0;
  std::uint8_t service_level = 0;
  VERBENA_MESSAGE(kProxyWanted) {
    a(m.receiver, m.line, m.domain, m.srq, m.first, m.mtu, m.access_flags, m.max_dest_rd_atomic,
      m.min_rnr_timer, m.peer, m.peer_lid, m.service_level);
  }
};

struct ProxyAnswer {
  std::uint32_t receiver = 0;
  std::uint32_t line = 0;
  std::uint32_t proxy = 0;  // number of the proxy; 0: there is none, or no longer one
  VERBENA_MESSAGE(kProxyAnswer) { a(m.receiver, m.line, m.proxy); }
};

struct ProxiesReleased {
  std::uint32_t receiver = 0;
  VERBENA_MESSAGE(kProxiesReleased) { a(m.receiver); }
};

enum class ReceiverVerb : std::uint8_t { kOpen = 1, kClose = 2, kModify = 3, kQuery = 4 };

inline constexpr std::size_t kReceiverAttributesMax = 1024;

// `attributes` are those of ibv_modify_qp as they stand in memory (struct ibv_qp_attr). Ticket 0
// expects no answer: the holder of a handle has died.
struct ReceiverCall {
  std::uint32_t ticket = 0;  // chosen by the daemon
  ReceiverVerb verb = ReceiverVerb::kOpen;
  std::uint32_t domain = 0;
  std::uint32_t receiver = 0;
  std::uint32_t mask = 0;
  std::vector<std::uint8_t> attributes;
  VERBENA_MESSAGE(kReceiverCall) {
    a(m.ticket, m.verb, m.domain, m.receiver, m.mask, m.attributes);
  }
};

struct ReceiverAnswer {
  std::uint32_t ticket = 0;
  std::uint32_t code = 0;  // errno
  std::string text;
  std::vector<std::uint8_t> attributes;  // attributes as they are now
  VERBENA_MESSAGE(kReceiverAnswer) { a(m.ticket, m.code, m.text, m.attributes); }
};

struct ReceiverDone {
  std::vector<std::uint8_t> attributes;
  VERBENA_MESSAGE(kReceiverDone) { a(m.attributes); }
};

struct ReceiverEvent {
  std::uint32_t receiver = 0;
  std::uint32_t event = 0;  // as ibv_event_type
  VERBENA_MESSAGE(kReceiverEvent) { a(m.receiver, m.event); }
};

}  // namespace verbena::control
