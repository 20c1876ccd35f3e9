// SPDX-License-Identifier: BSD-2-Clause
// Tells the thread that drives an engine what time it is, and reads the clock as seldom as
// possible: the clock costs as much as an empty round without it. An application that spins reads
// it now and then, and when something has come that does not closely follow something else. Used by
// one round at a time, under the receive lock, except recent().
#pragma once

#include <cstdint>
#include <utility>

#include "verbena/base/types.hpp"
#include "verbena/link/recent_time.hpp"
#include "verbena/progress/times.hpp"

namespace verbena::provider {

class RoundClock {
 public:
  // Begins a round, at a known time or at one that is found out when it is needed.
  void begin(TimeNs now) noexcept { now_ = now; }
  void begin() noexcept { now_ = 0; }
  TimeNs now() noexcept {
    if (now_ == 0) now_ = clock_.now_or_look();
    return now_;
  }
  // Returns a time that is at most a few microseconds old. Any thread.
  TimeNs recent() const noexcept { return clock_.now(); }
  TimeNs look() noexcept { return clock_.look(); }

  // --- an application that polls ---
  // Called after an empty round. Returns whether the clock is not read this time.
  bool leaves_clock_alone() noexcept { return ++empty_rounds_ % times::kEmptyRoundsUntilLook != 0; }
  // Reads the clock after an empty round.
  TimeNs look_after_empty_round() noexcept {
    const TimeNs before = std::exchange(looked_at_, clock_.look());
    now_ = looked_at_;
    only_polls_ = looked_at_ - before < times::kEmptyRoundsUntilLook * times::kRoundOfWhoOnlyPolls;
    return now_;
  }
  // Returns whether the application does nothing but poll: its rounds follow each other closely.
  bool only_polls() const noexcept { return only_polls_; }

  // --- how long nothing has come ---
  void note_found(TimeNs now) noexcept { last_found_ = now; }
  TimeNs waited(TimeNs now) const noexcept { return now - last_found_; }

 private:
  link::RecentTime clock_;
  TimeNs now_ = 0;  // of this round; 0 if not needed yet
  std::uint32_t empty_rounds_ = 0;
  TimeNs looked_at_ = 0;  // when the clock was read after an empty round
  bool only_polls_ = false;
  TimeNs last_found_ = 0;
};

}  // namespace verbena::provider
