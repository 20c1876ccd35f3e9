// SPDX-License-Identifier: BSD-2-Clause
// What the engine reports to the application: completions that a channel waits for, asynchronous
// events, and why something went wrong.
#include <sys/socket.h>

#include <cerrno>

#include "verbena/context/context.hpp"
#include "verbena/report/explain.hpp"

namespace verbena::provider {

// Counted when the queue's lock is free, so the event may have been counted before: what counts is
// the sum.
void Context::note_armed(Cq& cq, queue::CompletionQueue::Arming arming) noexcept {
  using Arming = queue::CompletionQueue::Arming;
  if (!cq.channel || arming == Arming::kWaitedBefore) return;
  cq.channel->armed.fetch_add(1, std::memory_order_relaxed);
  if (arming == Arming::kFired) return progress_.note_fired_at_once();
  progress_.note_armed(cq.channel.get() == last_reader_.load(std::memory_order_relaxed));
}

void Context::note_fired(Cq& cq) noexcept {
  if (!cq.channel) return;
  cq.channel->armed.fetch_sub(1, std::memory_order_relaxed);
  progress_.note_fired();
}

void Context::on_completion_event(void* cookie) noexcept {
  Cq& cq = *static_cast<Cq*>(cookie);
  note_fired(cq);
  if (!cq.channel) return;
  const CompletionEvent event{reinterpret_cast<std::uintptr_t>(&cq.abi.cq)};
  announcements_.announce({event, &cq.channel->pipe, &cq.completion_events});
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

// --- what a person asks for -------------------------------------------------------------------

// Under control_lock_, as all that handles messages.
void Context::handle_raise_event(const control::RaiseEvent& request, std::uint32_t sequence) {
  using control::RaisedEvent;
  control::Outcome<control::Done> done = control::Done{};
  switch (request.event) {
    case RaisedEvent::kClientReregister:
      if (!is_further()) on_async_event(queue::AsyncEvent::kClientReregister, nullptr);
      return;
    case RaisedEvent::kWqFatal:
      if (!is_further()) raise_of_work_queue();
      return;
    case RaisedEvent::kQpFatal:
    case RaisedEvent::kPathMigrationError:
      done = raise_of_queue_pair(request);
      break;
    case RaisedEvent::kSrqError:
      done = raise_of_shared_receive(request.number);
      break;
  }
  const auto answer =
      done ? control::encode(control::Ack{}, sequence)
           : control::encode(
                 control::Refused{static_cast<std::uint32_t>(done.error().code), done.error().text},
                 sequence);
  (void)control::send_packet(channel_.fd(), answer, {}, MSG_DONTWAIT);
}

control::Outcome<control::Done> Context::raise_of_queue_pair(const control::RaiseEvent& request) {
  const bool is_fatal = request.event == control::RaisedEvent::kQpFatal;
  control::Outcome<control::Done> done = control::fail(ENOENT, "no such queue pair");
  device_->with_qp(Qpn(request.number), [&](qp::QueuePair& qp) {
    if (qp.cookie() == nullptr) return;  // a stand-in, which programs do not know
    if (!is_fatal && qp.transport() == Transport::kUd) {
      done = control::fail(EINVAL, "a UD queue pair has no path that could migrate");
      return;
    }
    if (is_fatal) {
      const Guard guard(qp.lock());
      qp.fail("`verbena event` raised qp-fatal");
    }
    on_async_event(static_cast<queue::AsyncEvent>(request.event), qp.cookie());
    done = control::Done{};
  });
  return done;
}

control::Outcome<control::Done> Context::raise_of_shared_receive(std::uint32_t number) {
  bool is_there = false;
  exports_.shared_receives.with(number, [&](Srq* srq) {
    is_there = srq != nullptr;
    if (is_there) on_async_event(queue::AsyncEvent::kSrqError, srq);
  });
  if (is_there) return control::Done{};
  return control::fail(ENOENT, "no such shared receive queue");
}

// Programs look into the work queue that an event names, and acknowledge the event by it. This
// device makes none (ibv_create_wq), so there is one for this.
void Context::make_no_work_queue() noexcept {
  ::pthread_mutex_init(&no_wq_.mutex, nullptr);
  ::pthread_cond_init(&no_wq_.cond, nullptr);
  no_wq_.context = public_context_;
  no_wq_.state = IBV_WQS_ERR;
}

void Context::raise_of_work_queue() noexcept {
  send_async(reinterpret_cast<std::uintptr_t>(&no_wq_), IBV_EVENT_WQ_FATAL, nullptr);
}

}  // namespace verbena::provider
