// SPDX-License-Identifier: BSD-2-Clause
// XRC domains that a file names, which all processes of the emulator share: who has which open,
// and how the contexts find each other through them. The packets go from context to context.
//
// A receiver (an XRC_RECV queue pair) that is sent a request for an SRQ of another context wants a
// proxy there. Nobody waits: the packet does, and the question is repeated with it.
//
//   receiver's context        daemon            SRQ's context
//     | ProxyWanted -----------> | ProxyWanted ----->|   makes it, or changes its attributes
//     | <----------- ProxyAnswer | <----- ProxyAnswer|   also when the context is gone
//     | ProxiesReleased -------> | ProxiesReleased ->|   ends them
//
// A further handle of a receiver (ibv_open_qp) in another context acts upon it through the daemon:
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

// The file by its device and inode. Refused with EINVAL if it is to be new and is not, with EAGAIN
// if there is none and it is not to be made. The daemon counts how often a context has it open.
struct OpenDomain {
  std::uint64_t file_device = 0;
  std::uint64_t inode = 0;
  bool create = false;
  bool exclusive = false;
  VERBENA_MESSAGE(kOpenDomain) { a(m.file_device, m.inode, m.create, m.exclusive); }
};

// Numbers with kSharedDomain set; a context may use others for domains of its own.
inline constexpr std::uint32_t kSharedDomain = 0x80000000u;
struct DomainOpened {
  std::uint32_t number = 0;
  VERBENA_MESSAGE(kDomainOpened) { a(m.number); }
};

// Answered by Ack.
struct CloseDomain {
  std::uint32_t number = 0;
  VERBENA_MESSAGE(kCloseDomain) { a(m.number); }
};

// As queue::ProxyQp.
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
  std::uint32_t proxy = 0;  // its number; 0: there is none, or none any more
  VERBENA_MESSAGE(kProxyAnswer) { a(m.receiver, m.line, m.proxy); }
};

struct ProxiesReleased {
  std::uint32_t receiver = 0;
  VERBENA_MESSAGE(kProxiesReleased) { a(m.receiver); }
};

enum class ReceiverVerb : std::uint8_t { kOpen = 1, kClose = 2, kModify = 3, kQuery = 4 };

inline constexpr std::size_t kReceiverAttributesMax = 1024;

// `attributes` are those of ibv_modify_qp as they stand in memory (struct ibv_qp_attr). Ticket 0
// awaits no answer: a holder of a handle has died.
struct ReceiverCall {
  std::uint32_t ticket = 0;  // the daemon's
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
  std::vector<std::uint8_t> attributes;  // as they are now
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
