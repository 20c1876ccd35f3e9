// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/context.hpp"

#include <utility>

#include "verbena/context/live_contexts.hpp"
#include "verbena/control/import_messages.hpp"
#include "verbena/control/status_messages.hpp"
#include "verbena/objects/limits.hpp"
#include "verbena/report/explain.hpp"

namespace verbena::provider {

Context::Context(const abi::Library& library, ibv_context* public_context, const char* device_name)
    : library_(library), public_context_(public_context), events_(*public_context) {
  public_context_->num_comp_vectors = static_cast<int>(kCompletionVectors);
  engines_.open_first(
      control::Channel(public_context->cmd_fd, control::Channel::Ownership::kBorrowed),
      device_name);
  mappings_.emplace(device().memory());
  first().start();
  add_context(*this);
}

// The engines end while everything that they call is still there. Unmapped memory is not watched
// any more once no engine receives.
Context::~Context() {
  remove_context(*this);
  engines_.end_further();
  first().stop();
  mappings_.reset();
  engines_.end_first();
}

void Context::on_descriptors_closed() noexcept {
  if (has_lost_descriptors_.take(true)) return;
  events_.lose_descriptors();
  channels_.lose_descriptors();
  engines_.for_each([](AttachedEngine& engine) { engine.on_own_descriptors_closed(); });
}

bool Context::leave_behind() noexcept {
  bool has_lost_any = has_lost_descriptors();
  engines_.for_each([&](AttachedEngine& engine) {
    has_lost_any = has_lost_any || !engine.has_its_descriptors();
  });
  if (!has_lost_any) return false;
  on_descriptors_closed();
  remove_context(*this);
  engines_.for_each([](AttachedEngine& engine) { engine.leave_behind(); });
  mappings_.reset();
  static Published<Context*> left_last{nullptr};
  left_before_ = left_last.take(this);
  return true;
}

// Waits for an engine that is being made, which the child could not use.
void Context::pause() noexcept {
  engines_.lock().lock();
  engines_.for_each([](AttachedEngine& engine) { engine.pause(); });
  lock_.lock();
}

void Context::resume() noexcept {
  lock_.unlock();
  engines_.for_each([](AttachedEngine& engine) { engine.resume(); });
  engines_.lock().unlock();
}

void Context::resume_dead() noexcept {
  events_.abandon();
  channels_.abandon();
  engines_.for_each([](AttachedEngine& engine) { engine.abandon(); });
  resume();
}

control::Counters Context::port_counters() {
  if (!is_fatal()) {
    auto asked = ask<control::Counters>(control::QueryCounters{info().name});
    if (asked && asked->drops.size() == kDropReasons) return std::move(*asked);
  }
  const PortCounters& own = device().counters();
  control::Counters counters;
  for (std::size_t i = 0; i < kDropReasons; ++i) {
    counters.drops.push_back(own.drops.read(static_cast<DropReason>(i)));
  }
  return counters;
}

void Context::on_message(const control::Incoming& message) {
  using control::handle;
  handle<control::Relayed>(message, [this](const auto& m) { multicast_.on_relayed(m); });
  handle<control::ExportQuery>(message, [this](const auto& m) { imports_.on_query(m); });
  handle<control::RegionChanged>(message, [this](const auto& m) { imports_.on_region_changed(m); });
  if (message.type() == control::MessageType::kOwnerGone) memory_.foreign().end();
  handle<control::ProxyWanted>(message, [this](const auto& m) { shared_domains_.on_wanted(m); });
  handle<control::ProxyAnswer>(message, [this](const auto& m) { shared_domains_.on_answer(m); });
  handle<control::ProxiesReleased>(message,
                                   [this](const auto& m) { shared_domains_.on_released(m); });
  handle<control::ReceiverCall>(message, [this](const auto& m) { receivers_.on_call(m); });
  handle<control::ReceiverEvent>(message, [this](const auto& m) { receivers_.on_remote_event(m); });
}

void Context::on_completion_event(Cq& cq) noexcept {
  if (!cq.channel) return;
  first().engine().note_fired(*cq.channel);
  const CompletionEvent event{reinterpret_cast<std::uintptr_t>(&cq.abi.cq)};
  first().engine().announcements().announce({event, &cq.channel->pipe, &cq.completion_events});
}

void Context::on_async_event(queue::AsyncEvent event, void* cookie) noexcept {
  using queue::AsyncEvent;
  const auto type = static_cast<std::uint32_t>(event);
  switch (event) {
    case AsyncEvent::kCqError: {
      Cq& cq = *static_cast<Cq*>(cookie);
      explain(
          "completion queue: overflow; it held cqe = %d completions that were not "
          "polled (IBV_EVENT_CQ_ERR)",
          cq.abi.cq.cqe);
      return events_.send(reinterpret_cast<std::uintptr_t>(&cq.abi.cq), type, &cq.async_events);
    }
    case AsyncEvent::kSrqError:
    case AsyncEvent::kSrqLimitReached: {
      Srq& srq = *static_cast<Srq*>(cookie);
      return events_.send(reinterpret_cast<std::uintptr_t>(&srq.abi.srq), type, &srq.async_events);
    }
    case AsyncEvent::kQpFatal:
    case AsyncEvent::kQpRequestError:
    case AsyncEvent::kQpAccessError:
    case AsyncEvent::kCommunicationEstablished:
    case AsyncEvent::kSqDrained:
    case AsyncEvent::kPathMigrated:
    case AsyncEvent::kPathMigrationError:
    case AsyncEvent::kLastWqeReached: {
      if (cookie == nullptr) return;  // a proxy; its receiver reports the event
      Qp& qp = *static_cast<Qp*>(cookie);
      if (qp.receiver) return receivers_.on_event(qp, type);
      return events_.send(reinterpret_cast<std::uintptr_t>(&qp.abi.qp), type, &qp.async_events);
    }
    case AsyncEvent::kDeviceFatal:
    case AsyncEvent::kPortActive:
    case AsyncEvent::kPortError:
    case AsyncEvent::kLidChange:
    case AsyncEvent::kPkeyChange:
    case AsyncEvent::kSmChange:
    case AsyncEvent::kClientReregister:
    case AsyncEvent::kGidChange:
      return events_.send(control::kPortNumber, type, nullptr);
  }
}

}  // namespace verbena::provider
