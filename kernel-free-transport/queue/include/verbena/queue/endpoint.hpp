// SPDX-License-Identifier: BSD-2-Clause
// What both halves of a queue pair know: who it is, whom it talks to, which queues and which
// memory it uses. Owned by the queue pair, changed only under its lock, and the place where either
// half reports a failure that takes the whole queue pair to its error state.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "verbena/base/lock.hpp"
#include "verbena/base/port_counters.hpp"
#include "verbena/base/types.hpp"
#include "verbena/memory/registry.hpp"
#include "verbena/queue/completion_queue.hpp"
#include "verbena/queue/events.hpp"
#include "verbena/queue/occurrence.hpp"
#include "verbena/queue/shared_receive.hpp"
#include "verbena/wire/datagram.hpp"

namespace verbena::queue {

// Counters of one queue pair, read by status while they run.
struct EndpointCounters {
  OwnedCounter packets_sent;
  OwnedCounter packets_received;
  OwnedCounter bytes_sent;  // payload
  OwnedCounter bytes_received;
  OwnedCounter retransmitted;  // packets sent again
};

// Why a queue pair stands in its error state: what was noted first since it was reset.
class Reason {
 public:
  [[gnu::cold]] void note(const char* text) noexcept;
  void clear() noexcept { text_.reset(); }
  const char* text() const noexcept { return text_ ? text_.get() : ""; }

 private:
  std::unique_ptr<char[]> text_;
};

// A failure: the queue pair goes to the error state (UC and UD after a send: only the send queue
// does), and the owner may be told.
struct FatalFailure {
  std::optional<AsyncEvent> event;
  bool send_queue_only = false;
};

// A message announced data instead of carrying it, and a tagged buffer is there: the device reads
// it from the peer and says so (FIN).
struct Rendezvous {
  ActiveReceive receive;  // where it goes
  std::uint64_t remote_address = 0;
  std::uint32_t remote_key = 0;
  std::uint32_t length = 0;
  std::uint64_t tag = 0;
  std::uint32_t tag_private = 0;
};

struct Endpoint {
  // Fixed at creation.
  Transport transport = Transport::kRc;
  Qpn number;
  memory::DomainId domain = 0;
  memory::Registry* memory = nullptr;
  EventSink* events = nullptr;
  PortCounters* port = nullptr;
  DropCounters* drops = nullptr;  // the port's
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* receive_cq = nullptr;
  std::uint32_t send_account = 0;  // in them, whose slots completions free
  std::uint32_t receive_account = 0;
  ReceiveQueue* receives = nullptr;          // own or shared; null for XRC
  SharedReceive* srq = nullptr;              // the shared one, if it is
  SharedReceiveDirectory* shared = nullptr;  // XRC: by number
  // Null or false: the marks in packets, which faults leave there, mean nothing.
  const Published<bool>* obeys_marks = nullptr;
  void* cookie = nullptr;
  bool signal_all = false;
  bool blocks_own_multicast = false;  // what it sends to a group does not come back to it
  // XRC_RECV: posts nothing that could take an acknowledgement along, and of a proxy the
  // receiver may go away when it is done.
  bool acknowledges_at_once = false;

  // Set by transitions.
  wire::Origin origin;  // of the packets that it sends; `created` is fixed
  Qpn peer;
  // In completions: those of the receiver and its peer, for a proxy.
  Qpn shown_number;
  Qpn shown_peer;
  std::uint16_t pkey = 0xffff;
  std::uint32_t qkey = 0;
  std::uint32_t mtu = 256;
  std::uint32_t access_flags = 0;
  wire::Destination destination;
  std::unique_ptr<wire::Path> path;  // there; from RTR on
  std::uint16_t peer_lid = 0;
  std::uint8_t service_level = 0;

  // Automatic path migration: packets say whether they travel the path that counts now; while an
  // alternate path is armed, used-up retries go there instead of to the error state.
  bool migrated = true;
  bool alternate_armed = false;
  bool migration_wanted = false;

  // How packets travel, which the path is asked once for each batch.
  std::optional<wire::Path::Packing> packing_of_batch;
  const wire::Path::Packing& packing() {
    if (!packing_of_batch) packing_of_batch = path->packing();
    return *packing_of_batch;
  }

  Reason reason;
  // Reported by either half, taken by the queue pair.
  std::optional<FatalFailure> failure;
  [[gnu::cold]] void fail(std::optional<AsyncEvent> event = std::nullopt) {
    if (!failure || failure->send_queue_only) failure = FatalFailure{event, false};
  }
  [[gnu::cold]] void fail_for_want_of_room();  // in a completion queue
  void fail_send_queue() {
    if (!failure) failure = FatalFailure{std::nullopt, true};
  }

  // Transfers that matched rendezvous messages ask for; the queue pair hands them to the requester.
  std::vector<Rendezvous> rendezvous;

  EndpointCounters counters;

  // What repeats itself, and is told together.
  Tally flushed_sends;
  Tally flushed_receives;
  Tally timeouts;
};

// Says it to whoever wants explanations, behind "RC queue pair 0x004001: ".
[[gnu::cold]] void explain(const Endpoint& endpoint, const char* format, ...) noexcept
    __attribute__((format(printf, 2, 3)));
// The same of what takes the queue pair to its error state: status shows it there.
[[gnu::cold]] void blame(Endpoint& endpoint, const char* format, ...) noexcept
    __attribute__((format(printf, 2, 3)));

// For those who watch: what became of the queue pair, `state` as ibv_qp_state; of one completion;
// and of many that are alike, one of which is named.
[[gnu::cold]] void tell_state(const Endpoint& endpoint, std::uint8_t state) noexcept;
[[gnu::cold]] void tell_failure(const Endpoint& endpoint, Status status, std::string_view opcode,
                                std::uint64_t id, const char* why) noexcept;
[[gnu::cold]] void tell_flushed_sends(Endpoint& endpoint, std::string_view opcode, std::uint64_t id,
                                      std::uint32_t count) noexcept;
[[gnu::cold]] void tell_flushed_receives(Endpoint& endpoint, std::uint64_t id,
                                         std::uint32_t count) noexcept;
[[gnu::cold]] void tell_timeout(Endpoint& endpoint, std::string_view opcode,
                                std::uint64_t id) noexcept;
// Before it is reset or goes away: what was not told yet of what repeated itself.
[[gnu::cold]] void tell_rest(Endpoint& endpoint) noexcept;

}  // namespace verbena::queue
