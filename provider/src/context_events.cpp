// What the engine reports to the application: completions that a channel waits for, asynchronous
// events, and why something went wrong.
#include "context.hpp"
#include "explain.hpp"

namespace verbena::provider {

// Counted when the queue's lock is free, so the event may have been counted before: what counts is
// the sum.
void Context::note_armed(Cq& cq, queue::CompletionQueue::Arming arming) noexcept {
  using Arming = queue::CompletionQueue::Arming;
  if (!cq.channel || arming == Arming::kWaitedBefore) return;
  cq.channel->armed.fetch_add(1, std::memory_order_relaxed);
  if (arming == Arming::kFired) return progress_.note_fired_at_once();
  progress_.note_armed(cq.channel.get() == attended_.load(std::memory_order_relaxed));
}

void Context::note_fired(Cq& cq) noexcept {
  if (!cq.channel) return;
  cq.channel->armed.fetch_sub(1, std::memory_order_relaxed);
  progress_.note_fired();
}

void Context::on_completion_event(void* cookie) noexcept {
  Cq& cq = *static_cast<Cq*>(cookie);
  note_fired(cq);
  if (cq.channel) announcements_.announce(cq);
}

void Context::on_earlier_deadline(std::uint64_t deadline) noexcept {
  progress_.note_deadline(deadline);
}

void Context::explain(const char* text) noexcept { provider::explain("%s", text); }
bool Context::wants_explanations() const noexcept { return explains(); }

void Context::send_async(std::uint64_t element, std::uint32_t type,
                         std::atomic<std::uint32_t>* delivered) noexcept {
  if (is_further()) return main_.send_async(element, type, delivered);
  const AsynchronousEvent event{element, type, 0};
  if (async_.write(event) && delivered != nullptr) delivered->fetch_add(1);
}

void Context::on_async_event(queue::AsyncEvent event, void* cookie) noexcept {
  using queue::AsyncEvent;
  const auto type = static_cast<std::uint32_t>(event);
  switch (event) {
    case AsyncEvent::kCqError: {
      Cq& cq = *static_cast<Cq*>(cookie);
      provider::explain(
          "completion queue: overflow; it held cqe = %d completions that were not "
          "polled (IBV_EVENT_CQ_ERR)",
          cq.abi.cq.cqe);
      return send_async(reinterpret_cast<std::uintptr_t>(&cq.abi.cq), type, &cq.async_events);
    }
    case AsyncEvent::kSrqError:
    case AsyncEvent::kSrqLimitReached: {
      Srq& srq = *static_cast<Srq*>(cookie);
      return send_async(reinterpret_cast<std::uintptr_t>(&srq.abi.srq), type, &srq.async_events);
    }
    case AsyncEvent::kQpFatal:
    case AsyncEvent::kQpRequestError:
    case AsyncEvent::kQpAccessError:
    case AsyncEvent::kCommunicationEstablished:
    case AsyncEvent::kSqDrained:
    case AsyncEvent::kPathMigrated:
    case AsyncEvent::kPathMigrationError:
    case AsyncEvent::kLastWqeReached: {
      if (cookie == nullptr) return;  // a stand-in: its receiver tells
      Qp& qp = *static_cast<Qp*>(cookie);
      if (qp.receiver) return receivers_.on_event(qp, type);
      return send_async(reinterpret_cast<std::uintptr_t>(&qp.abi.qp), type, &qp.async_events);
    }
    case AsyncEvent::kDeviceFatal:
    case AsyncEvent::kPortActive:
    case AsyncEvent::kPortError:
    case AsyncEvent::kLidChange:
    case AsyncEvent::kPkeyChange:
    case AsyncEvent::kSmChange:
    case AsyncEvent::kClientReregister:
    case AsyncEvent::kGidChange:
      return send_async(control::kPortNumber, type, nullptr);
  }
}

}  // namespace verbena::provider
