// SPDX-License-Identifier: BSD-2-Clause
// Decides how long the progress thread spins after packets have come, before it sleeps. A peer
// often sends again sooner than a thread falls asleep and is woken, and for a peer on this host
// waking costs more than sending. But the thread may hold the very processor that the application
// needs for its answer: then nothing comes while the thread spins, however soon it comes
// afterwards. One thread at a time.
#pragma once

#include "verbena/base/adaptive_spin.hpp"
#include "verbena/base/types.hpp"
#include "verbena/progress/times.hpp"

namespace verbena::provider {

class ThreadSpin {
 public:
  static constexpr TimeNs kSpan = times::kThreadSpin;
  // In a stream, most of the time before a sleeper sees the next packets is its own waking, during
  // which the sender waits as well, because its window is full. A thread that took this time for
  // the sender's pace would fall asleep before every batch.
  static constexpr TimeNs kSpanOfSleeper = times::kThreadSpinOfSleeper;

  // Packets have come. Returns until when to look for more; the thread looks at least once.
  TimeNs found(TimeNs now) noexcept {
    if (is_looking_) {
      spin_.won();
    } else if (now < last_ + kSpanOfSleeper) {
      spin_.would_have_won();
    } else {
      spin_.would_have_lost();
    }
    last_ = now;
    is_looking_ = spin_.is_on();
    return is_looking_ ? now + kSpan : now;
  }
  // No packets came until then.
  void gave_up() noexcept {
    if (is_looking_) spin_.lost();
    is_looking_ = false;
  }
  // The thread has something else to do first. Returns a time in the past.
  TimeNs stop() noexcept {
    is_looking_ = false;
    return 0;
  }

 private:
  AdaptiveSpin spin_;
  TimeNs last_ = 0;
  bool is_looking_ = false;
};

}  // namespace verbena::provider
