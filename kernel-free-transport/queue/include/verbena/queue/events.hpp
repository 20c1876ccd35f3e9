// What the engine tells its owner outside of completions. Called on whatever thread made it
// happen, often with a queue's lock held: the receiver must not call back into the engine.
#pragma once

#include <cstdint>

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

class EventSink {
 public:
  virtual ~EventSink() = default;
  // An armed completion queue has something; `cookie` is what its owner gave at creation.
  virtual void on_completion_event(void* cq_cookie) noexcept = 0;
  // `cookie` of the CQ, QP or SRQ that the event names.
  virtual void on_async_event(AsyncEvent event, void* cookie) noexcept = 0;
  // A timer now ends before all others: whoever sleeps until the next one must look again.
  virtual void on_earlier_deadline(std::uint64_t deadline) noexcept { (void)deadline; }
  // A request or completion failed: one line in words (never on the fast path).
  virtual void explain(const char* text) noexcept { (void)text; }
  virtual bool wants_explanations() const noexcept { return false; }
};

}  // namespace verbena::queue
