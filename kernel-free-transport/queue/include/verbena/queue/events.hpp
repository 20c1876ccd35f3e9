// SPDX-License-Identifier: BSD-2-Clause
// What the engine tells its owner outside of completions. Called on whatever thread made it
// happen, often with a queue's lock held: the receiver must not call back into the engine.
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

// What an XRC receive queue pair (the receiver) wants of the process that owns an SRQ of its
// domain: a queue pair that carries out what the receiver passes on.
struct ProxyQp {
  Qpn receiver;  // the peer sends to this one
  Qpn line;      // its answers go to this number of the receiver's device
  std::uint32_t xrc_domain = 0;
  std::uint32_t srq = 0;  // one of the owner's
  Psn first;              // of its sequence
  std::uint32_t mtu = 256;
  std::uint32_t access_flags = 0;
  std::uint8_t max_dest_rd_atomic = 0;
  std::uint8_t min_rnr_timer = 0;
  Qpn peer;  // what completions say of the peer
  std::uint16_t peer_lid = 0;
  std::uint8_t service_level = 0;
};

class EventSink {
 public:
  virtual ~EventSink() = default;
  // An armed completion queue has something; `cookie` is what its owner gave at creation.
  virtual void on_completion_event(void* cq_cookie) noexcept = 0;
  // `cookie` of the CQ, QP or SRQ that the event names.
  virtual void on_async_event(AsyncEvent event, void* cookie) noexcept = 0;
  // A timer now ends before all others: whoever sleeps until the next one must look again.
  virtual void on_earlier_deadline(std::uint64_t deadline) noexcept { (void)deadline; }
  // To be answered by Device::connect_line or refuse_line. Asked again for the same line, it brings
  // new attributes, or the first question is thought lost.
  virtual void on_proxy_wanted(const ProxyQp& wanted) noexcept { (void)wanted; }
  // The receiver has no use for any of its proxies any more.
  virtual void on_proxies_released(Qpn receiver) noexcept { (void)receiver; }
  // A request or completion failed: one line in words (never on the fast path).
  virtual void explain(const char* text) noexcept { (void)text; }
  virtual bool wants_explanations() const noexcept { return false; }
  // For those who watch (never on the fast path).
  virtual void on_occurrence(const Occurrence& what) noexcept { (void)what; }
};

}  // namespace verbena::queue
