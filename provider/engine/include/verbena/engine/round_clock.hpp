// SPDX-License-Identifier: BSD-2-Clause
// What time it is for whoever drives an engine, found out as seldom as it may be: the clock costs
// as much as an empty round without it. An application that spins looks at it now and then, and
// when something has come that is not close behind something else. One round at a time, under the
// receive lock, but for recent().
#pragma once

#include <cstdint>
#include <utility>

#include "verbena/base/types.hpp"
#include "verbena/link/recent_time.hpp"
#include "verbena/progress/times.hpp"

namespace verbena::provider {

class RoundClock {
 public:
  // The time of a round that begins, or that it is found out when it is asked for.
  void begin(TimeNs now) noexcept { now_ = now; }
  void begin() noexcept { now_ = 0; }
  TimeNs now() noexcept {
    if (now_ == 0) now_ = clock_.now_or_look();
    return now_;
  }
  // Any thread: as it was a few microseconds ago at most.
  TimeNs recent() const noexcept { return clock_.now(); }
  TimeNs look() noexcept { return clock_.look(); }

  // --- an application that polls ---
  // After an empty round: whether the clock is left alone this time.
  bool leaves_clock_alone() noexcept { return ++empty_rounds_ % times::kEmptyRoundsUntilLook != 0; }
  // Of a round that was empty.
  TimeNs look_after_empty_round() noexcept {
    const TimeNs before = std::exchange(looked_at_, clock_.look());
    now_ = looked_at_;
    only_polls_ = looked_at_ - before < times::kEmptyRoundsUntilLook * times::kRoundOfWhoOnlyPolls;
    return now_;
  }
  // The application does nothing but poll: its rounds follow each other closely.
  bool only_polls() const noexcept { return only_polls_; }

  // --- how long nothing has come ---
  void note_found(TimeNs now) noexcept { last_found_ = now; }
  TimeNs waited(TimeNs now) const noexcept { return now - last_found_; }

 private:
  link::RecentTime clock_;
  TimeNs now_ = 0;  // of this round; 0: not asked for yet
  std::uint32_t empty_rounds_ = 0;
  TimeNs looked_at_ = 0;  // the clock, after an empty one
  bool only_polls_ = false;
  TimeNs last_found_ = 0;
};

}  // namespace verbena::provider
