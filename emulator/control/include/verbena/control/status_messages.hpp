// SPDX-License-Identifier: BSD-2-Clause
// What contexts do, in the form in which `verbena status`, `rdma` and the counters of sysfs ask.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "verbena/base/address.hpp"
#include "verbena/control/message.hpp"

namespace verbena::control {

enum class StatusOf : std::uint8_t {
  kAll = 0,
  kQueuePairs = 1,
  kCompletionQueues = 2,
  kSharedReceives = 3
};

// Asks a context for its object counts and for the state of up to `most` objects of each kind, or
// of one kind, behind number `after` in the context's own order (0: from the first). The daemon
// asks repeatedly, so that each side holds at most one page at a time.
struct StatusRequest {
  std::uint32_t after = 0;
  std::uint32_t most = 0;
  StatusOf of = StatusOf::kAll;
  VERBENA_MESSAGE(kStatusRequest) { a(m.after, m.most, m.of); }
};

enum class LinkKind : std::uint8_t { kNone = 0, kUdp = 1, kRing = 2 };

struct QpStatus {
  std::uint32_t qpn = 0;
  std::uint8_t type = 0;   // as ibv_qp_type
  std::uint8_t state = 0;  // as ibv_qp_state
  LinkKind link = LinkKind::kNone;
  IpAddress peer_address;
  std::uint32_t peer_qpn = 0;
  // The numbers of its queues; 0: it has none.
  std::uint32_t send_cq = 0;
  std::uint32_t receive_cq = 0;
  std::uint32_t srq = 0;
  std::uint32_t domain = 0;  // number of its protection domain; 0: it has none
  std::uint32_t send_psn = 0;
  std::uint32_t receive_psn = 0;
  std::uint32_t send_outstanding = 0;  // work requests
  std::uint32_t receive_outstanding = 0;
  std::uint64_t sent_packets = 0;
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_packets = 0;
  std::uint64_t received_bytes = 0;
  std::uint64_t retransmitted_packets = 0;
  std::string last_error;  // why it is in an error state; empty if it is not
  bool operator==(const QpStatus&) const = default;
  VERBENA_FIELDS {
    a(m.qpn, m.type, m.state, m.link, m.peer_address, m.peer_qpn, m.send_cq, m.receive_cq, m.srq,
      m.domain, m.send_psn, m.receive_psn, m.send_outstanding, m.receive_outstanding,
      m.sent_packets, m.sent_bytes, m.received_packets, m.received_bytes, m.retransmitted_packets,
      m.last_error);
  }
};

enum class CqArmed : std::uint8_t { kNo = 0, kForSolicited = 1, kForAny = 2 };

struct CqStatus {
  std::uint32_t number = 0;
  std::uint32_t capacity = 0;
  std::uint32_t users = 0;     // send and receive queues that complete to it
  std::uint32_t unpolled = 0;  // completions
  CqArmed armed = CqArmed::kNo;
  bool has_overrun = false;
  bool has_channel = false;
  std::uint32_t channel_fd = 0;             // descriptor number in the program
  std::uint32_t unread_events = 0;          // counts all completion queues of the channel
  std::uint32_t unacknowledged_events = 0;  // counts this queue, read or not
  bool operator==(const CqStatus&) const = default;
  VERBENA_FIELDS {
    a(m.number, m.capacity, m.users, m.unpolled, m.armed, m.has_overrun, m.has_channel,
      m.channel_fd, m.unread_events, m.unacknowledged_events);
  }
};

struct SrqStatus {
  std::uint32_t number = 0;
  std::uint8_t type = 0;  // as ibv_srq_type
  std::uint32_t receive_outstanding = 0;
  std::uint32_t domain = 0;  // number of its protection domain
  std::uint32_t cq = 0;      // CQ that it completes to (XRC, tag matching); 0: none
  bool operator==(const SrqStatus&) const = default;
  VERBENA_FIELDS { a(m.number, m.type, m.receive_outstanding, m.domain, m.cq); }
};

struct ResourceCounts {
  std::uint32_t pds = 0;
  std::uint32_t cqs = 0;
  std::uint32_t qps = 0;
  std::uint32_t mrs = 0;
  std::uint32_t srqs = 0;
  std::uint32_t contexts = 1;  // 0: a further engine of a context
  bool operator==(const ResourceCounts&) const = default;
  VERBENA_FIELDS { a(m.pds, m.cqs, m.qps, m.mrs, m.srqs, m.contexts); }
};

// A call that destroys an object and waits until the program has acknowledged those events of the
// object that it got.
struct WaitingDestroy {
  std::string call;           // for example ibv_destroy_qp
  std::string acknowledges;   // the call that it waits for, for example ibv_ack_async_event
  std::uint32_t number = 0;   // the object's number; 0: it is not known
  std::uint32_t events = 0;   // how many the program got
  std::uint32_t missing = 0;  // how many of them are not acknowledged; 0: it is not known
  bool operator==(const WaitingDestroy&) const = default;
  VERBENA_FIELDS { a(m.call, m.acknowledges, m.number, m.events, m.missing); }
};

// Some objects of one kind. `last`: no more follow.
template <typename Object>
struct StatusPage {
  bool last = true;
  std::vector<Object> objects;
  VERBENA_FIELDS { a(m.last, m.objects); }
};

// The answer to StatusRequest, with its sequence.
struct StatusReport {
  static constexpr std::size_t kMostInOne = 128;  // objects of each kind
  // `most` of the first question, which goes to all contexts at once. Most contexts have no more
  // objects and are asked only once.
  static constexpr std::size_t kFirst = 16;
  static constexpr std::size_t kDestroysMost = 16;
  ResourceCounts counts;                 // all objects of the context
  std::vector<WaitingDestroy> destroys;  // at most kDestroysMost
  StatusPage<QpStatus> qps;
  StatusPage<CqStatus> cqs;
  StatusPage<SrqStatus> srqs;
  VERBENA_MESSAGE(kStatusReport) { a(m.counts, m.destroys, m.qps, m.cqs, m.srqs); }
};

struct StatusQuery {
  bool resets = false;  // sets the ports' counters to zero after they are shown
  VERBENA_MESSAGE(kStatusQuery) { a(m.resets); }
};

// The answer to StatusQuery, in as many messages as needed, at the pace at which the asker reads.
// First comes the emulator with its rules and the rdma_cm IDs of all programs; then each device
// with its faults and its contexts one by one, each with its queue pairs, completion queues and
// shared receive queues:
//
//   kEmulator kRules* kCmIds* (kDevice kFaults* (kContext kQps* kCqs* kSrqs* kContextEnd)*)* kEnd
//
// kEnd is empty. kEmulator, kDevice, kContext and kContextEnd carry one JSON object. kRules,
// kCmIds, kFaults, kQps, kCqs and kSrqs carry one or more, one a line.
enum class StatusPart : std::uint8_t {
  kEmulator = 1,
  kDevice = 2,
  kFaults = 3,
  kContext = 4,
  kQps = 5,
  kContextEnd = 6,
  kEnd = 7,
  kSrqs = 8,
  kRules = 9,
  kCqs = 10,
  kCmIds = 11
};
struct StatusText {
  static constexpr std::size_t kTextMost = 32 * 1024;
  StatusPart part = StatusPart::kEnd;
  std::string text;
  VERBENA_MESSAGE(kStatusText) { a(m.part, m.text); }
};

// Writes the counters of a device (empty: all) into the shadow tree. The daemon answers with Ack
// when it has done so.
struct RefreshCounters {
  std::string device;
  VERBENA_MESSAGE(kRefreshCounters) { a(m.device); }
};

// Asks what the port of a device has counted, over all processes. The daemon answers with Counters.
struct QueryCounters {
  std::string device;
  VERBENA_MESSAGE(kQueryCounters) { a(m.device); }
};

struct Counters {
  std::vector<std::uint64_t> port;   // one for each PortCounter
  std::vector<std::uint64_t> drops;  // one for each DropReason
  VERBENA_MESSAGE(kCounters) { a(m.port, m.drops); }
};

enum class ResourcesOf : std::uint8_t {
  kCounts = 0,
  kQueuePairs = 1,
  kCompletionQueues = 2,
  kSharedReceives = 3,  // with the queue pairs, which name the SRQs that they use
  kCmIds = 4
};

// Asks for what `rdma resource` shows: how many objects there are, and the objects of one kind. For
// rdma_cm IDs the daemon asks no context and tells only the IDs. An empty device means all. The
// daemon answers with Resources, in as many messages as needed.
struct QueryResources {
  std::string device;
  ResourcesOf of = ResourcesOf::kCounts;
  VERBENA_MESSAGE(kQueryResources) { a(m.device, m.of); }
};

struct ContextResources {
  std::string device;
  std::uint32_t slot = 0;
  std::uint32_t pid = 0;
  std::string comm;
  ResourceCounts counts;
  std::vector<QpStatus> qps;
  std::vector<CqStatus> cqs;
  std::vector<SrqStatus> srqs;
  VERBENA_FIELDS { a(m.device, m.slot, m.pid, m.comm, m.counts, m.qps, m.cqs, m.srqs); }
};

// An rdma_cm ID that is bound to a device or listens on all of them, with the kernel's numbers.
struct CmIdResource {
  std::string device;  // empty: it listens on all devices
  std::uint32_t number = 0;
  std::uint32_t pid = 0;             // 0: its program has gone
  std::uint32_t qpn = 0;             // 0: the program has not named one
  std::uint8_t qp_type = 0;          // as ibv_qp_type
  std::uint8_t state = 0;            // as enum rdma_cm_state
  std::uint16_t port_space = 0;      // as enum rdma_ucm_port_space
  std::vector<std::uint8_t> source;  // a sockaddr; empty: none
  std::vector<std::uint8_t> destination;
  bool operator==(const CmIdResource&) const = default;
  VERBENA_FIELDS {
    a(m.device, m.number, m.pid, m.qpn, m.qp_type, m.state, m.port_space, m.source, m.destination);
  }
};

struct Resources {
  // The most objects of each kind that are told for one device. Further ones are only counted.
  static constexpr std::size_t kMost = 4096;
  bool last = true;
  std::vector<ContextResources> contexts;  // one context may be split over several
  std::uint32_t cm_id_count = 0;           // IDs of this message; adds to those of the others
  std::vector<CmIdResource> cm_ids;
  VERBENA_MESSAGE(kResources) { a(m.last, m.contexts, m.cm_id_count, m.cm_ids); }
};

}  // namespace verbena::control
