// SPDX-License-Identifier: BSD-2-Clause
// How long the progress thread looks on after packets have come, before it sleeps. A peer often
// sends again sooner than a thread falls asleep and is woken, and one on this host pays more for
// waking it than for sending. But the thread may hold the very processor that the application wants
// for its answer: then nothing comes while it looks, however soon after it. One thread at a time.
#pragma once

#include "verbena/base/adaptive_spin.hpp"
#include "verbena/base/types.hpp"
#include "verbena/progress/times.hpp"

namespace verbena::provider {

class ThreadSpin {
 public:
  static constexpr TimeNs kSpan = times::kThreadSpin;
  // In a stream most of what passes before a sleeper sees the next packets is its own waking,
  // during which the sender, whose window is full, waits as well: a thread that took it for the
  // sender's pace would fall asleep before every batch.
  static constexpr TimeNs kSpanOfSleeper = times::kThreadSpinOfSleeper;

  // Packets have come: until when to look for more of them, at least once.
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
  // None came until then.
  void gave_up() noexcept {
    if (is_looking_) spin_.lost();
    is_looking_ = false;
  }
  // There is something else to do first. Returns a time that is past.
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
