// SPDX-License-Identifier: BSD-2-Clause
// Handles the daemon's messages to an engine, all under the client's lock.
#include <dlfcn.h>

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "verbena/base/short_text.hpp"
#include "verbena/context/attached_engine.hpp"
#include "verbena/context/context.hpp"
#include "verbena/context/status_report.hpp"
#include "verbena/control/event_messages.hpp"
#include "verbena/control/status_messages.hpp"
#include "verbena/control/waiting_destroys.hpp"
#include "verbena/link/clock.hpp"
#include "verbena/report/explain.hpp"

namespace verbena::provider {

void AttachedEngine::on_message(control::Incoming&& message) {
  on_port_message(message);
  on_question(message);
  if (message.type() == control::MessageType::kShutdown) {
    on_lost("the emulator was told to go down");
  }
  if (is_first_) owner_.on_message(message);
}

// Handles changes at the port and on the way to a peer.
void AttachedEngine::on_port_message(control::Incoming& message) {
  using control::handle;
  handle<control::PortEvent>(message, [this](const auto& event) {
    port_.on_event(event, [this](queue::AsyncEvent what) {
      if (is_first_) owner_.on_async_event(what, nullptr);
    });
  });
  handle<control::SetFault>(message, [this](const auto& fault) {
    orders_.on_faults(fault.faults, fault.rules);
    end_faults_of_none(fault.faults);
    client_.tell(control::FaultsInForce{fault.ticket});
  });
  handle<control::SetCapture>(message, [&](auto&& capture) {
    orders_.on_capture(std::move(capture.order), message.fds[0]);
  });
  handle<control::AddressOpened>(
      message, [&](const auto& opened) { port_.on_address_opened(opened.address, message.fds); });
  handle<control::RingInbound>(message,
                               [&](const auto& offer) { rings_.on_inbound(offer, message.fds); });
  handle<control::RingOutbound>(message,
                                [&](const auto& given) { rings_.on_outbound(given, message.fds); });
  handle<control::PeerGone>(message, [this](const auto& gone) { rings_.on_peer_gone(gone); });
}

// Handles questions about this engine's objects, and answers to its own questions about peers.
void AttachedEngine::on_question(const control::Incoming& message) {
  using control::handle;
  handle<control::StatusRequest>(
      message, [&](const auto& request) { report_status(request, message.header.sequence); });
  handle<control::FindQueuePair>(message,
                                 [this](const auto& question) { find_queue_pair(question); });
  handle<control::PeerNews>(message, [this](const auto& news) {
    engine_->reports().told(news.address, Qpn(news.qpn), news.report, link::monotonic_now_ns());
  });
  handle<control::QpQuestion>(message,
                              [this](const auto& question) { answer_about_queue_pair(question); });
  handle<control::RaiseEvent>(
      message, [&](const auto& request) { raise_event(request, message.header.sequence); });
}

void AttachedEngine::find_queue_pair(const control::FindQueuePair& question) {
  control::QueuePairFound answer{question.ticket, false};
  engine_->device().with_qp(Qpn(question.qpn), [&](qp::QueuePair&) { answer.found = true; });
  client_.tell(answer);
}

// The queue pair may have been destroyed just before the fault for it came.
void AttachedEngine::end_faults_of_none(const std::vector<control::FaultSpec>& faults) {
  for (const control::FaultSpec& spec : faults) {
    const Qpn number(spec.qpn);
    if (!spec.is_of_one_queue_pair() || number.slot() != engine_->device().options().slot) continue;
    bool is_there = false;
    engine_->device().with_qp(number, [&](qp::QueuePair&) { is_there = true; });
    if (!is_there) client_.tell(control::QueuePairGone{spec.qpn});
  }
}

void AttachedEngine::answer_about_queue_pair(const control::QpQuestion& question) {
  using QueuePair = PeerReport::QueuePair;
  control::QpAnswer answer{question, QueuePair::kNone};
  engine_->device().with_qp(Qpn(question.qpn), [&](qp::QueuePair& qp) {
    const Guard guard(qp.lock());
    const qp::State state = qp.state();
    answer.queue_pair = state == qp::State::kError ? QueuePair::kError
                        : state >= qp::State::kRtr ? QueuePair::kReady
                                                   : QueuePair::kNotReady;
    if (answer.queue_pair == QueuePair::kReady) {
      answer.connected_to = qp.endpoint().peer.value();
    }
  });
  client_.tell(answer);
}

// Those of the context, and those of librdmacm, which are the process's.
std::vector<control::WaitingDestroy> AttachedEngine::waiting_destroys() {
  constexpr std::size_t kMost = control::StatusReport::kDestroysMost;
  std::vector<control::WaitingDestroy> all;
  for (const MissingAcks& acks : owner_.events().ack_waits().waiting(kMost)) {
    all.push_back(
        {acks.verbs.waits, acks.verbs.acknowledges, acks.number, acks.delivered, acks.missing});
  }
  static auto* const find = reinterpret_cast<control::FindWaitingDestroys*>(
      ::dlsym(RTLD_DEFAULT, control::kFindWaitingDestroys));
  if (find == nullptr) return all;
  std::array<std::uint32_t, kMost> events{};
  const std::size_t count = find(events.data(), kMost - all.size());
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back({"rdma_destroy_id", "rdma_ack_cm_event", 0, events[i], 0});
  }
  return all;
}

void AttachedEngine::report_status(const control::StatusRequest& request, std::uint32_t sequence) {
  control::StatusReport report = status_report(request, engine_->device(), engine_->links().peers(),
                                               is_first_ ? &owner_.exports() : nullptr);
  report.counts.pds = counts_.pds;
  report.counts.cqs = counts_.cqs;
  report.counts.qps = counts_.qps;
  report.counts.mrs = counts_.mrs;
  report.counts.srqs = counts_.srqs;
  report.counts.contexts = is_first_ ? 1 : 0;
  if (is_first_) report.destroys = waiting_destroys();
  client_.answer(report, sequence);
}

// --- what a user asks for (`verbena event`) -----------------------------------------------------

// Answers whether the event can be raised, and raises it afterwards: a program may end as soon as
// it gets the event.
void AttachedEngine::raise_event(const control::RaiseEvent& request, std::uint32_t sequence) {
  using control::RaisedEvent;
  control::Outcome<control::Done> can = control::Done{};
  const bool is_of_srq = request.event == RaisedEvent::kSrqError;
  const Qpn number = request.place != 0 ? queue_pair_at(request.place) : Qpn(request.number);
  switch (request.event) {
    case RaisedEvent::kClientReregister:
      if (is_first_) owner_.on_async_event(queue::AsyncEvent::kClientReregister, nullptr);
      return;
    case RaisedEvent::kWqFatal:
      if (is_first_) owner_.events().raise_of_work_queue();
      return;
    case RaisedEvent::kQpFatal:
    case RaisedEvent::kPathMigrationError:
      can = can_raise_of_queue_pair(number, request.event);
      break;
    case RaisedEvent::kSrqError:
      can = can_raise_of_shared_receive(request.number);
      break;
  }
  if (!can) {
    const auto code = static_cast<std::uint32_t>(can.error().code);
    return (void)client_.tell(control::Refused{code, can.error().text}, sequence);
  }
  client_.tell(control::Ack{}, sequence);
  if (is_of_srq) {
    owner_.exports().shared_receives.with(request.number, [this](Srq* srq) {
      if (srq != nullptr) on_async_event(queue::AsyncEvent::kSrqError, srq);
    });
  } else {
    raise_of_queue_pair(number, request);
  }
}

// Returns the queue pair that the process created at this place, counted from 1. Returns 0 if this
// engine does not have it, or if it cannot send yet.
Qpn AttachedEngine::queue_pair_at(std::uint32_t place) {
  Qpn found{};
  engine_->device().for_each_qp([&](qp::QueuePair& qp) {
    const Guard guard(qp.lock());
    const bool can_send = qp.state() >= qp::State::kRts;
    if (can_send && qp.endpoint().origin.created == place) found = qp.number();
  });
  return found;
}

control::Outcome<control::Done> AttachedEngine::can_raise_of_queue_pair(
    Qpn number, control::RaisedEvent event) {
  control::Outcome<control::Done> can = control::fail(ENOENT, "no such queue pair");
  engine_->device().with_qp(number, [&](qp::QueuePair& qp) {
    if (qp.cookie() == nullptr) return;  // a proxy, which programs do not know
    can = control::Done{};
    if (event != control::RaisedEvent::kQpFatal && qp.transport() == Transport::kUd) {
      can = control::fail(EINVAL, "a UD queue pair has no path that could migrate");
    }
  });
  return can;
}

void AttachedEngine::raise_of_queue_pair(Qpn number, const control::RaiseEvent& request) {
  engine_->device().with_qp(number, [&](qp::QueuePair& qp) {
    if (request.event == control::RaisedEvent::kQpFatal) {
      const Guard guard(qp.lock());
      qp.fail(request.place != 0 ? "a rule (raise=) raised qp-fatal"
                                 : "`verbena event` raised qp-fatal");
    }
    on_async_event(static_cast<queue::AsyncEvent>(request.event), qp.cookie());
  });
}

control::Outcome<control::Done> AttachedEngine::can_raise_of_shared_receive(std::uint32_t number) {
  bool is_there = false;
  if (is_first_) {
    owner_.exports().shared_receives.with(number, [&](Srq* srq) { is_there = srq != nullptr; });
  }
  if (is_there) return control::Done{};
  return control::fail(ENOENT, "no such shared receive queue");
}

// --- the end -----------------------------------------------------------------------------------

void AttachedEngine::on_lost(const char* reason) noexcept {
  // The connection may be lost because the program has closed its descriptor.
  const bool has_descriptors = has_its_descriptors();
  if (!has_descriptors) owner_.on_descriptors_closed();
  if (!engine_->mark_failed()) return;
  // Another emulator may begin, although the program keeps its device open.
  if (has_descriptors) engine_->links().peers().leave_sockets();
  const ShortText why("%s: %s", port_.info().name.c_str(), reason);
  if (is_first_) {
    explain(
        "%s; every queue pair of this context is in error now "
        "(IBV_EVENT_DEVICE_FATAL)",
        why.c_str());
  }
  engine_->device().fail_all(why.c_str());
  if (is_first_) owner_.on_async_event(queue::AsyncEvent::kDeviceFatal, nullptr);
}

}  // namespace verbena::provider
