// SPDX-License-Identifier: BSD-2-Clause
// Decides whether an acknowledgement without data to travel with waits until the application posts,
// which it often does in answer to what it received. Then both travel together, and a peer that
// waits for both gets them while it still polls for its completion. Whether waiting pays is learnt
// from these outcomes (base/adaptive_spin.hpp):
//
//   state | the acknowledgement      | what ends it                              | next
//   ------+--------------------------+-------------------------------------------+-----
//   Idle  | none pending, or it went | one is pending, and waiting has paid      | Held
//         | with data                | one is pending, and goes                  | Due
//   Held  | waits, until the timer   | the application posts: won                | Idle
//         |                          | data takes it along                       | Idle
//         |                          | the timer: lost                           | Due
//         |                          | all must go now                           | Due
//   Due   | went alone, at the       | the application posts within kHold: would | Idle
//         | timer's time             | have won; or later: would have lost       |
//         |                          | the next one is pending: as from Idle     |
//
// The queue pair owns it and calls it under its lock. Time is an argument.
#pragma once

#include <cstdint>

#include "verbena/base/adaptive_spin.hpp"
#include "verbena/base/types.hpp"

namespace verbena::qp {

class HeldAck {
 public:
  // An application that polls its memory for data answers sooner than this.
  static constexpr TimeNs kHold = 20'000;

  enum class State : std::uint8_t { kIdle, kHeld, kDue };
  State state() const noexcept { return state_; }
  bool is_held() const noexcept { return state_ == State::kHeld; }
  // Returns when a held acknowledgement goes. Valid while it is held.
  TimeNs until() const noexcept { return timer_; }

  // Takes note that an acknowledgement is pending. Returns true if it waits, false if it goes.
  bool holds(TimeNs now) noexcept {
    if (is_held()) return true;
    if (!spin_.is_on()) return false;
    state_ = State::kHeld;
    timer_ = now + kHold;
    return true;
  }
  // Takes note that the acknowledgement goes alone.
  void goes_alone(TimeNs now) noexcept {
    if (is_held() && now >= timer_) spin_.lost();
    state_ = State::kDue;
    timer_ = now;
  }
  // Takes note that no acknowledgement is pending any more.
  void was_taken_along() noexcept {
    if (is_held()) state_ = State::kIdle;
  }
  // Takes note that the application posts, and that a pending acknowledgement goes along.
  void posted(TimeNs now) noexcept {
    if (state_ == State::kIdle) return;
    if (is_held()) {
      spin_.won();
    } else if (now < timer_ + kHold) {
      spin_.would_have_won();
    } else {
      spin_.would_have_lost();
    }
    state_ = State::kIdle;
  }

 private:
  AdaptiveSpin spin_;
  TimeNs timer_ = 0;
  State state_ = State::kIdle;
};

}  // namespace verbena::qp
