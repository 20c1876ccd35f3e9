// SPDX-License-Identifier: BSD-2-Clause
// Completion events that one round of receiving brought, written when its locks are free: whoever
// is woken by one may run at once, and must not find the locks taken by the thread that woke it.
// The round is the receive lock's; its end takes a lock of its own for the writing, so that whoever
// takes both in turn knows that no earlier event is on its way. Owned by the engine; any thread.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "verbena/base/lock.hpp"
#include "verbena/events/event_pipe.hpp"

namespace verbena::provider {

class Announcements {
 public:
  struct Announcement {
    CompletionEvent event{};
    EventPipe* pipe = nullptr;
    std::atomic<std::uint32_t>* written = nullptr;  // counts those that are in the pipe
  };

  // Under the receive lock, as the round begins.
  void begin_round() noexcept { collector_.store(::pthread_self(), std::memory_order_relaxed); }
  // Of this round.
  bool is_empty() const noexcept { return count_ == 0; }
  // Releases the receive lock and writes what was collected.
  void end_round(Lock& receive_lock) noexcept;
  // On any thread, under any lock: later, if this thread is within a round, else now.
  void announce(const Announcement& announcement) noexcept;
  // Until no event of an earlier round is on its way; without a lock.
  void await_written(Lock& receive_lock) noexcept;

  Lock& lock() noexcept { return writing_; }

 private:
  static constexpr std::size_t kMost = 16;

  // Whose round it is. Any thread finds out of itself that it is not.
  std::atomic<pthread_t> collector_{};
  std::array<Announcement, kMost> waiting_;  // under the receive lock
  std::size_t count_ = 0;
  Lock writing_;
};

}  // namespace verbena::provider
