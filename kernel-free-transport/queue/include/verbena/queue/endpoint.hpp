// SPDX-License-Identifier: BSD-2-Clause
// What both halves of a queue pair know: its identity, its peer, and the queues and memory that it
// uses. The queue pair owns it and changes it only under its lock. Either half reports here a
// failure that takes the whole queue pair to its error state.
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

// Counters of one queue pair, which status reads while they change.
struct EndpointCounters {
  OwnedCounter packets_sent;
  OwnedCounter packets_received;
  OwnedCounter bytes_sent;  // payload
  OwnedCounter bytes_received;
  OwnedCounter retransmitted;  // packets that were sent again
};

// Why a queue pair is in its error state: the first reason that was noted since its reset.
class Reason {
 public:
  [[gnu::cold]] void note(const char* text) noexcept;
  void clear() noexcept { text_.reset(); }
  const char* text() const noexcept { return text_ ? text_.get() : ""; }

 private:
  std::unique_ptr<char[]> text_;
};

// A failure. The queue pair goes to the error state (UC and UD after a send: only the send queue
// does), and the owner may get an event.
struct FatalFailure {
  std::optional<AsyncEvent> event;
  bool send_queue_only = false;
};

// A message that announced data instead of carrying it, and for which a tagged buffer is there. The
// device reads the data from the peer and then reports it done (FIN).
struct Rendezvous {
  ActiveReceive receive;  // where the data goes
  std::uint64_t remote_address = 0;
  std::uint32_t remote_key = 0;
  std::uint32_t length = 0;
  std::uint64_t tag = 0;
  std::uint32_t tag_private = 0;
};

inline constexpr char kFullOfCompletions[] =
    "its completion queue is full of completions that were not polled";

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
  std::uint32_t send_account = 0;  // accounts in both, whose slots completions free
  std::uint32_t receive_account = 0;
  ReceiveQueue* receives = nullptr;          // the queue pair's own or shared queue; null for XRC
  SharedReceive* srq = nullptr;              // the SRQ, if `receives` is shared
  SharedReceiveDirectory* shared = nullptr;  // XRC: finds SRQs by number
  // Says whether to obey the marks that injected faults leave in packets; null: they are ignored.
  const Published<bool>* obeys_marks = nullptr;
  void* cookie = nullptr;
  bool signal_all = false;
  bool blocks_own_multicast = false;  // packets to a group do not come back to the sender
  // True for XRC_RECV: it posts nothing that could carry an acknowledgement, and the receiver of a
  // proxy may go away when a request is done.
  bool acknowledges_at_once = false;

  // State transitions set these.
  wire::Origin origin;  // for the packets that it sends; `created` is fixed
  Qpn peer;
  // The numbers that completions show. For a proxy they are those of the receiver and its peer.
  Qpn shown_number;
  Qpn shown_peer;
  std::uint16_t pkey = 0xffff;
  std::uint32_t qkey = 0;
  std::uint32_t mtu = 256;
  std::uint32_t access_flags = 0;
  wire::Destination destination;
  std::unique_ptr<wire::Path> path;  // the path to `destination`, from RTR on
  std::uint16_t peer_lid = 0;
  std::uint8_t service_level = 0;

  // Automatic path migration. Packets carry `migrated` as their MigReq bit. While an alternate path
  // is armed, exhausted retries lead to that path instead of the error state.
  bool migrated = true;
  bool alternate_armed = false;
  bool migration_wanted = false;

  // How packets travel. The path is asked once for each batch.
  std::optional<wire::Path::Packing> packing_of_batch;
  const wire::Path::Packing& packing() {
    if (!packing_of_batch) packing_of_batch = path->packing();
    return *packing_of_batch;
  }

  Reason reason;
  // A failure that a half has reported and the queue pair has not yet handled.
  std::optional<FatalFailure> failure;
  [[gnu::cold]] void fail(std::optional<AsyncEvent> event = std::nullopt) {
    if (!failure || failure->send_queue_only) failure = FatalFailure{event, false};
  }
  [[gnu::cold]] void fail_for_want_of_room();  // a completion queue is full
  void fail_send_queue() {
    if (!failure) failure = FatalFailure{std::nullopt, true};
  }

  // Transfers for matched rendezvous messages. The queue pair hands them to the requester.
  std::vector<Rendezvous> rendezvous;

  EndpointCounters counters;

  // Repeated events, which are told in groups.
  Tally flushed_sends;
  Tally flushed_receives;
  Tally timeouts;
};

// Explains something to a sink that wants explanations, behind "RC queue pair 0x004001: ".
[[gnu::cold]] void explain(const Endpoint& endpoint, const char* format, ...) noexcept
    __attribute__((format(printf, 2, 3)));
// Explains what takes the queue pair to its error state, and notes it as the reason that status
// shows.
[[gnu::cold]] void blame(Endpoint& endpoint, const char* format, ...) noexcept
    __attribute__((format(printf, 2, 3)));

// Tell `verbena events` what happened: a new state of the queue pair (as ibv_qp_state), one failed
// completion, or several similar completions, with one of them as example.
[[gnu::cold]] void tell_state(const Endpoint& endpoint, std::uint8_t state) noexcept;
[[gnu::cold]] void tell_failure(const Endpoint& endpoint, Status status, std::string_view opcode,
                                std::uint64_t id, const char* why) noexcept;
[[gnu::cold]] void tell_flushed_sends(Endpoint& endpoint, std::string_view opcode, std::uint64_t id,
                                      std::uint32_t count) noexcept;
[[gnu::cold]] void tell_flushed_receives(Endpoint& endpoint, std::uint64_t id,
                                         std::uint32_t count) noexcept;
[[gnu::cold]] void tell_timeout(Endpoint& endpoint, std::string_view opcode,
                                std::uint64_t id) noexcept;
// Tells what is left of the repeated events. Call it before the queue pair is reset or destroyed.
[[gnu::cold]] void tell_rest(Endpoint& endpoint) noexcept;

}  // namespace verbena::queue
