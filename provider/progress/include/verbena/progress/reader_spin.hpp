// SPDX-License-Identifier: BSD-2-Clause
// Decides whether a thread that waits for an event spins for a while before it sleeps. In a
// ping-pong of messages the answer comes sooner than a thread falls asleep and is woken, which
// would also cost the other side time. But the answer cannot come while the thread holds the very
// processor that the peer needs for it. So the benefit is learned, and each spin in vain makes it
// harder to start again.
//
// A thread that may use only one processor yields before each look. Two yields are enough for a
// peer that does the same and gives the first turn back before it has seen its packet. There are
// two exceptions. Before Linux 6.6 the scheduler gives a thread that has slept longer than others a
// claim to the processor. The thread cannot give this claim away for a few milliseconds, and keeps
// it if both sides then run equally long. Therefore the first spin in a row lasts until this claim
// is used up. And if yields return at once, no other thread wants the processor: the peer has one
// of its own, as where each process is bound to one, and spinning on costs nothing. A yield that
// takes long has let an unrelated thread run; that spin was in vain, even if the event is there
// afterwards.
//
// Owned by the engine, used by its one blocked reader (blocked_reader.hpp).
#pragma once

#include <cstdint>

#include "verbena/base/adaptive_spin.hpp"
#include "verbena/base/types.hpp"
#include "verbena/progress/times.hpp"

namespace verbena::provider {

class ReaderSpin {
 public:
  static constexpr TimeNs kSpan = times::kReaderSpin;
  static constexpr TimeNs kSpanOfSleeper = times::kReaderSpinOfSleeper;
  static constexpr int kTurns = times::kReaderTurns;
  static constexpr TimeNs kTurnOfNobody = times::kTurnOfNobody;
  static constexpr TimeNs kSpanOfFirstTurns = times::kSpanOfFirstTurns;

  void begin(TimeNs now) noexcept {
    began_ = now;
    turns_ = 0;
    is_first_ = state_ != State::kFound;
    state_ = spin_.is_on() ? State::kLooks : State::kSleeps;
  }
  bool is_on() const noexcept { return state_ == State::kLooks; }
  // Nothing has come yet. Returns whether to look once more.
  bool goes_on(TimeNs now) noexcept {
    if (state_ != State::kLooks) return false;
    if (now < began_ + kSpan) return true;
    give_up(now - began_);
    return false;
  }
  // The thread has yielded once.
  void note_turn() noexcept { ++turns_; }
  // Does what goes_on() does, where each look follows a yield.
  template <typename Clock>
  bool goes_on_after_turn(Clock&& clock) noexcept {
    if (state_ != State::kLooks) return false;
    if (turns_ < kTurns) return true;
    const TimeNs passed = clock() - began_;
    const bool looks_alone = passed < turns_ * kTurnOfNobody;
    if ((looks_alone && passed < kSpan) || (is_first_ && passed < kSpanOfFirstTurns)) return true;
    give_up(passed);
    return false;
  }
  // The event has come. `clock` is called only if the time matters.
  template <typename Clock>
  void end(Clock&& clock) noexcept {
    const bool found = state_ == State::kLooks;
    if (found && turns_ != 0 && is_somebody_elses(clock() - began_)) {
      spin_.lost_dearly();
    } else if (found) {
      spin_.won();
    } else if (state_ == State::kSleeps && clock() < began_ + kSpanOfSleeper) {
      spin_.would_have_won();
    } else if (state_ == State::kSleeps) {
      spin_.would_have_lost();
    }
    state_ = found ? State::kFound : State::kOver;
  }

 private:
  enum class State : std::uint8_t { kLooks, kSleeps, kFound, kOver };

  // Returns whether one of the yields so far has let an unrelated thread run.
  bool is_somebody_elses(TimeNs passed) const noexcept {
    return turns_ != 0 && turns_ <= kTurns && passed >= kSpanOfSleeper;
  }
  void give_up(TimeNs passed) noexcept {
    is_somebody_elses(passed) ? spin_.lost_dearly() : spin_.lost();
    state_ = State::kOver;
  }

  AdaptiveSpin spin_;
  TimeNs began_ = 0;
  int turns_ = 0;
  bool is_first_ = true;  // the first spin in a row
  State state_ = State::kOver;
};

}  // namespace verbena::provider
