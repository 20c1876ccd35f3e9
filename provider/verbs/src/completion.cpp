// SPDX-License-Identifier: BSD-2-Clause
// Completion queues: making and destroying them, the classic poll, events.
#include <algorithm>
#include <cstring>

#include "verbena/context/context.hpp"
#include "verbena/events/await_acks.hpp"
#include "verbena/link/clock.hpp"
#include "verbena/objects/dead_handles.hpp"
#include "verbena/objects/limits.hpp"
#include "verbena/report/guard.hpp"
#include "verbena/report/tsan_order.hpp"
#include "verbena/verbs/make_cq.hpp"
#include "verbena/verbs/parts.hpp"
#include "verbena/verbs/translate.hpp"
#include "verbena/verbs/verbs.hpp"

namespace verbena::provider {

namespace {

// A program that polls and finds nothing comes back, but may poll a thousand other queues first.
// Therefore a poll goes on for this many rounds while packets come and none completes anything
// here. A single packet most likely is for another queue, which the application polls next.
constexpr int kRoundsPerPoll = 8;
constexpr std::size_t kSeveral = 2;

}  // namespace

void drive(Cq& cq) noexcept {
  Engine* const one = cq.engine.load(std::memory_order_acquire);
  if (one == nullptr) [[unlikely]]
    // Its queue pairs have several engines.
    return cq.context.engines().for_each([](AttachedEngine& each) { each.engine().drive(); });
  std::size_t budget = Engine::kPollBudget;
  for (int round = 0; round < kRoundsPerPoll; ++round) {
    const std::size_t received = one->drive(budget);
    if (received < kSeveral || received >= budget || !cq.queue.is_empty()) return;
    budget -= received;
  }
}

namespace {

// While completions are there already, one in this many polls looks at the link all the same.
constexpr std::uint32_t kUnhurriedPolls = 8;

bool is_time_to_look(Cq& cq) noexcept {
  const std::uint32_t polls = cq.unhurried_polls.load(std::memory_order_relaxed) + 1;
  cq.unhurried_polls.store(polls, std::memory_order_relaxed);
  return polls % kUnhurriedPolls == 0;
}

ibv_cq* create_cq(ibv_context* c, int cqe, ibv_comp_channel* channel, int vector) noexcept {
  return pointer_or_errno([&] {
    CqRequest request;
    request.verb = "ibv_create_cq";
    request.cqe = cqe;
    request.channel = channel;
    request.vector = vector;
    return &make_cq(Context::of(c), request)->abi.cq;
  });
}

int destroy_cq(ibv_cq* c) noexcept {
  Cq& cq = object_of(c);
  if (const auto users = cq.users.count(); users != 0) {
    return refusal(EBUSY,
                   "ibv_destroy_cq: EBUSY: queue pairs or SRQs use it, %u times in all (a queue "
                   "pair uses its send_cq and its recv_cq)",
                   users);
  }
  if (cq.queue.disarm()) cq.context.note_fired(cq);
  // In a forked child the events are the parent's.
  if (cq.channel && !cq.channel->pipe.is_abandoned()) {
    cq.context.first().engine().await_announcements();
    cq.completion_events -= static_cast<std::uint32_t>(
        cq.channel->pipe.withdraw(reinterpret_cast<std::uintptr_t>(c), sizeof(CompletionEvent)));
  }
  if (cq.channel && !cq.channel->pipe.is_abandoned()) {
    cq.context.events().ack_waits().await(
        {{"ibv_destroy_cq", "ibv_get_cq_event", "ibv_ack_cq_events"},
         c->handle,
         &c->mutex,
         &c->cond,
         &c->comp_events_completed,
         cq.completion_events});
  }
  cq.context.events().end_of("ibv_destroy_cq", *c, c->handle, c->async_events_completed,
                             cq.async_events);
  cq.context.exports().completion_queues.remove(c->handle);
  --cq.context.counts().cqs;
  bury(cq);
  return 0;
}

int poll_cq(ibv_cq* c, int wanted, ibv_wc* wc) noexcept {
  Cq& cq = object_of(c);
  if (cq.queue.is_empty() || is_time_to_look(cq)) drive(cq);
  if (wanted <= 0) return 0;
  const std::size_t count =
      cq.queue.poll(static_cast<std::size_t>(wanted),
                    [&wc](const queue::Completion& done) { fill(*wc++, done); });
  if (count != 0) note_completion();
  return static_cast<int>(count);
}

int req_notify_cq(ibv_cq* c, int solicited_only) noexcept {
  Cq& cq = object_of(c);
  cq.unhurried_polls.store(0, std::memory_order_relaxed);
  cq.context.note_armed(cq, cq.queue.arm(solicited_only != 0));
  return 0;
}

// The application has read an event: there may be room for the next.
void cq_event(ibv_cq* c) noexcept {
  if (const Cq& cq = object_of(c); cq.channel) cq.channel->pipe.fill();
}

int resize_cq(ibv_cq* c, int cqe) noexcept {
  return errno_of([&] {
    Cq& cq = object_of(c);
    if (cqe < 1 || static_cast<std::uint32_t>(cqe) > kMaxCqe) {
      refuse(EINVAL, "ibv_resize_cq: cqe = %d is not in 1 .. max_cqe = %u", cqe, kMaxCqe);
    }
    if (!cq.queue.resize(static_cast<std::uint32_t>(cqe))) {
      refuse(EINVAL, "ibv_resize_cq: more completions wait than cqe = %d", cqe);
    }
    c->cqe = cqe;
  });
}

int modify_cq(ibv_cq* c, ibv_modify_cq_attr* attr) noexcept {
  return errno_of([&] {
    check_given("ibv_modify_cq", "attr", attr);
    if (attr->attr_mask != IBV_CQ_ATTR_MODERATE) {
      refuse(EINVAL, "ibv_modify_cq: attr_mask = 0x%x, must be IBV_CQ_ATTR_MODERATE",
             attr->attr_mask);
    }
    // With a period, no event may be later than the period: here no event is delayed at all.
    object_of(c).queue.moderate(attr->moderate.cq_period != 0 ? 0 : attr->moderate.cq_count);
  });
}

}  // namespace

// Adapters round up, and programs that ask for a single entry rely on it.
constexpr std::uint32_t kMinCqe = 63;

Cq* make_cq(Context& context, const CqRequest& request) {
  context.check_alive(request.verb);
  if (request.cqe < 1 || request.cqe > kMaxCqe) {
    refuse(EINVAL, "%s: cqe = %lld is not in 1 .. max_cqe = %u", request.verb,
           static_cast<long long>(request.cqe), kMaxCqe);
  }
  if (request.channel != nullptr && !is_handle_of(context, request.channel->context)) {
    refuse(EINVAL, "%s: the completion channel belongs to another opened device", request.verb);
  }
  if (request.vector < 0 || request.vector >= kCompletionVectors) {
    refuse(EINVAL, "%s: comp_vector = %lld, the device has num_comp_vectors = %u", request.verb,
           static_cast<long long>(request.vector), kCompletionVectors);
  }
  queue::CompletionQueue::Options options;
  options.capacity = std::max(static_cast<std::uint32_t>(request.cqe), kMinCqe);
  options.ignore_overrun = request.ignore_overrun;
  if (request.timestamps) options.clock = &link::monotonic_now_ns;
  auto cq =
      std::make_unique<Cq>(options, context, context.first().engine(), context.first().engine());
  if (request.channel != nullptr) cq->channel = context.channel_of(request.channel);
  cq->single_threaded = request.single_threaded;
  cq->abi.cq.context = context.public_context();
  cq->abi.cq.cqe = static_cast<int>(options.capacity);
  cq->abi.cq.handle = context.next_cq_number();
  context.exports().completion_queues.add(cq->abi.cq.handle, cq.get());
  ++context.counts().cqs;
  return cq.release();
}

void offer_completion_verbs(abi::Ops& ops) {
  ops.create_cq = &create_cq;
  ops.destroy_cq = &destroy_cq;
  ops.poll_cq = &poll_cq;
  ops.req_notify_cq = &req_notify_cq;
  ops.cq_event = &cq_event;
  ops.resize_cq = &resize_cq;
  ops.modify_cq = &modify_cq;
}

}  // namespace verbena::provider
