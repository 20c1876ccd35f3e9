// SPDX-License-Identifier: BSD-2-Clause
// What the engine tells its owner besides completions. It calls on the thread where the event
// happened, often with a queue's lock held: the sink must not call back into the engine.
#pragma once

#include <cstdint>

#include "verbena/base/types.hpp"
#include "verbena/queue/occurrence.hpp"

namespace verbena::queue {

class CompletionQueue;

// Values of ibv_event_type.
enum class AsyncEvent : std::uint8_t {
  kCqError = 0,
  kQpFatal = 1,
  kQpRequestError = 2,
  kQpAccessError = 3,
  kCommunicationEstablished = 4,
  kSqDrained = 5,
  kPathMigrated = 6,
  kPathMigrationError = 7,
  kDeviceFatal = 8,
  kPortActive = 9,
  kPortError = 10,
  kLidChange = 11,
  kPkeyChange = 12,
  kSmChange = 13,
  kSrqError = 14,
  kSrqLimitReached = 15,
  kLastWqeReached = 16,
  kClientReregister = 17,
  kGidChange = 18,
};

// What an XRC receive queue pair (the receiver) wants from the process that owns an SRQ of its
// domain: a queue pair that executes the requests that the receiver forwards.
struct ProxyQp {
  Qpn receiver;  // the queue pair that the peer sends to
  Qpn line;      // the number on the receiver's device that the proxy answers to
  std::uint32_t xrc_domain = 0;
  std::uint32_t srq = 0;  // the owner's SRQ
  Psn first;              // the first PSN of the proxy's sequence
  std::uint32_t mtu = 256;
  std::uint32_t access_flags = 0;
  std::uint8_t max_dest_rd_atomic = 0;
  std::uint8_t min_rnr_timer = 0;
  Qpn peer;  // the peer as completions show it
  std::uint16_t peer_lid = 0;
  std::uint8_t service_level = 0;
};

class EventSink {
 public:
  virtual ~EventSink() = default;
  // Reports that an armed completion queue has a completion; `cookie` is the one of its creation.
  virtual void on_completion_event(void* cq_cookie) noexcept = 0;
  // Reports an asynchronous event. `cookie` is that of the CQ, QP or SRQ.
  virtual void on_async_event(AsyncEvent event, void* cookie) noexcept = 0;
  // Reports that a timer now expires before all others: a thread that sleeps until the next one
  // must look again.
  virtual void on_earlier_deadline(std::uint64_t deadline) noexcept { (void)deadline; }
  // Asks for a proxy. Device::connect_line or refuse_line answers. A second question for the same
  // line brings new attributes, or the first one was probably lost.
  virtual void on_proxy_wanted(const ProxyQp& wanted) noexcept { (void)wanted; }
  // Reports that the receiver no longer needs any of its proxies.
  virtual void on_proxies_released(Qpn receiver) noexcept { (void)receiver; }
  // Explains in one line why a request or completion failed (never on the fast path).
  virtual void explain(const char* text) noexcept { (void)text; }
  virtual bool wants_explanations() const noexcept { return false; }
  // Reports an occurrence for `verbena events` (never on the fast path).
  virtual void on_occurrence(const Occurrence& what) noexcept { (void)what; }
};

}  // namespace verbena::queue
