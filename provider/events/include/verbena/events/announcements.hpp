// SPDX-License-Identifier: BSD-2-Clause
// Completion events that a round of receiving produced. They are written when the round's locks are
// free, because a thread that an event wakes may run at once and must not find locks taken by the
// thread that woke it. The receive lock guards the round; its end takes a second lock for writing.
// A thread that takes both locks in turn knows that every earlier event was written. Owned by the
// engine; any thread.
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
    std::atomic<std::uint32_t>* written = nullptr;  // counts the events in the pipe
  };

  // Called under the receive lock when the round begins.
  void begin_round() noexcept { collector_.store(::pthread_self(), std::memory_order_relaxed); }
  // Returns whether this round has collected no event.
  bool is_empty() const noexcept { return count_ == 0; }
  // Releases the receive lock and writes what was collected.
  void end_round(Lock& receive_lock) noexcept;
  // Called on any thread, under any lock. Writes the event at the end of the round if this thread
  // is in a round, else at once.
  void announce(const Announcement& announcement) noexcept;
  // Returns when every event of earlier rounds was written. Called without a lock.
  void await_written(Lock& receive_lock) noexcept;

  Lock& lock() noexcept { return writing_; }

 private:
  static constexpr std::size_t kMost = 16;

  // The thread whose round it is. Each thread only compares it with itself.
  std::atomic<pthread_t> collector_{};
  std::array<Announcement, kMost> waiting_;  // under the receive lock
  std::size_t count_ = 0;
  Lock writing_;
};

}  // namespace verbena::provider
