// SPDX-License-Identifier: BSD-2-Clause
// Completion queues.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "verbena/abi/objects.hpp"
#include "verbena/base/lock.hpp"
#include "verbena/objects/users.hpp"
#include "verbena/queue/completion_queue.hpp"

namespace verbena::provider {

class Context;
class Engine;
struct CompletionChannel;

struct Cq {
  using Public = abi::PrivateCq;
  // `first` is the owner's first engine; `events` hears of the completions for which the queue was
  // armed. The queue's cookie is this object.
  Cq(queue::CompletionQueue::Options options, Context& owner, Engine& first,
     queue::EventSink& events)
      : context(owner), engine(&first), queue((options.cookie = this, options), events) {}
  abi::PrivateCq abi{};
  Context& context;
  // The engine whose queue pairs complete here; null if several engines have such queue pairs.
  // `is_taken` says that there are any.
  std::atomic<Engine*> engine;
  bool is_taken = false;
  queue::CompletionQueue queue;
  std::shared_ptr<CompletionChannel> channel;
  Users users;
  std::atomic<std::uint32_t> completion_events{0};  // written into the channel
  // Returns how many of these are not acknowledged; libibverbs counts acknowledgements in any
  // thread.
  std::uint32_t unacknowledged_events() noexcept {
    const std::atomic_ref acknowledged(abi.cq.comp_events_completed);
    return completion_events - acknowledged.load(std::memory_order_relaxed);
  }
  std::atomic<std::uint32_t> async_events{0};
  // Polls that found completions already there, since the queue was last armed.
  std::atomic<std::uint32_t> unhurried_polls{0};
  // What the extended interface reads: it looks at a few completions at a time, which leave the
  // queue when all of them were read or when the poll ends. Belongs to the thread between
  // ibv_start_poll and ibv_end_poll.
  struct Reader {
    Lock lock;
    static constexpr std::size_t kMost = 32;
    std::span<const queue::Completion> seen;  // empty: it looks at none
    // If it looks at none, the completion that was read last, for a program that reads on after the
    // end.
    queue::Completion kept;
    const queue::Completion* current = &kept;
    const queue::Completion* last = &kept;  // the last one in `seen`
  };
  Reader reader;
  bool single_threaded = false;
  const queue::Completion& current() const { return *reader.current; }
};

inline Cq& object_of(ibv_cq* cq) { return *reinterpret_cast<Cq*>(cq); }
inline Cq& object_of(ibv_cq_ex* cq) { return *reinterpret_cast<Cq*>(cq); }

}  // namespace verbena::provider
