// SPDX-License-Identifier: BSD-2-Clause
// An acknowledgement that has no data to travel with: whether it waits for the application to post,
// which often answers what it got. Then both travel in one, and the peer, which often waits for
// both, gets them while it still polls for its completion. Waiting is learnt
// (base/adaptive_spin.hpp): each of these outcomes counts.
//
//   state | the acknowledgement      | what ends it                              | next
//   ------+--------------------------+-------------------------------------------+-----
//   Idle  | none pending, or it went | one is pending, and waiting has paid      | Held
//         | with data                | one is pending, and goes                  | Due
//   Held  | waits, until the timer   | the application posts: won                | Idle
//         |                          | data takes it along                       | Idle
//         |                          | the timer: lost                           | Due
//         |                          | all shall go now                          | Due
//   Due   | went alone, at the       | the application posts within kHold: would | Idle
//         | timer's time             | have won; or later: would have lost       |
//         |                          | the next one is pending: as from Idle     |
//
// Owned by its queue pair, under its lock; time is an argument.
#pragma once

#include <cstdint>

#include "verbena/base/adaptive_spin.hpp"
#include "verbena/base/types.hpp"

namespace verbena::qp {

class HeldAck {
 public:
  // An application that waits for data by looking at its memory answers sooner.
  static constexpr TimeNs kHold = 20'000;

  enum class State : std::uint8_t { kIdle, kHeld, kDue };
  State state() const noexcept { return state_; }
  bool is_held() const noexcept { return state_ == State::kHeld; }
  // While it is held.
  TimeNs until() const noexcept { return timer_; }

  // One is pending. True: it waits; else it goes.
  bool holds(TimeNs now) noexcept {
    if (is_held()) return true;
    if (!spin_.is_on()) return false;
    state_ = State::kHeld;
    timer_ = now + kHold;
    return true;
  }
  // It goes by itself.
  void goes_alone(TimeNs now) noexcept {
    if (is_held() && now >= timer_) spin_.lost();
    state_ = State::kDue;
    timer_ = now;
  }
  // None is pending any more.
  void was_taken_along() noexcept {
    if (is_held()) state_ = State::kIdle;
  }
  // By the application, and what is pending goes with it.
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
