// SPDX-License-Identifier: BSD-2-Clause
// Whether a thread that waits for an event looks for it a while before it sleeps. In a ping-pong of
// messages the answer is there sooner than a thread falls asleep and is woken, which costs the
// other side, too; but it cannot come while the thread holds the very processor that the peer needs
// for it. So it is learnt, and dearer with each time that the looking was in vain.
//
// A thread that may use one processor only gives others their turn before each look. Two turns are
// enough for a peer that does the same, and gives the first one back before it has seen what is
// there for it. But a scheduler gives a thread that has slept longer than others a right to the
// processor that it cannot give away for a few milliseconds (before Linux 6.6), and where both
// sides run for as long as the other from then on, it keeps that: so the first look in a row lasts
// until it is used up. And turns that come straight back are nobody's: the peer has a processor of
// its own, as where each process is bound to one, and it costs nobody anything to look on. A turn
// that takes long is of somebody else; it was in vain, though the event be there after it.
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
  // Nothing has come yet: whether to look once more.
  bool goes_on(TimeNs now) noexcept {
    if (state_ != State::kLooks) return false;
    if (now < began_ + kSpan) return true;
    give_up(now - began_);
    return false;
  }
  // The others have had their turn.
  void note_turn() noexcept { ++turns_; }
  // The same, where each look is after a turn of the others.
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
  // The event has come. `clock`: asked only where it matters.
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

  // One of the turns that have passed.
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
  bool is_first_ = true;  // of looks in a row
  State state_ = State::kOver;
};

}  // namespace verbena::provider
