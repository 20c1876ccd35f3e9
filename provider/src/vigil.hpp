// Whether a thread that waits for an event looks for it a while before it sleeps. In a ping-pong of
// messages the answer is there sooner than a thread falls asleep and is woken, which costs the
// other side, too; but it cannot come while the thread holds the very processor that the peer needs
// for it. So it is learnt, and dearer with each time that the looking was in vain. A thread that
// may use one processor only gives others their turn before it looks, once, and then gives up.
// Owned by the context, used by the one thread that attends to it (attendance.hpp).
#pragma once

#include <cstdint>

#include "verbena/base/types.hpp"
#include "verbena/base/wager.hpp"

namespace verbena::provider {

class Vigil {
 public:
  static constexpr TimeNs kSpan = 30'000;
  // What a sleeper got after so long would have come within the span to one that looks: half of the
  // time was the waking of both sides.
  static constexpr TimeNs kSpanOfSleeper = 2 * kSpan;

  void begin(TimeNs now) noexcept {
    began_ = now;
    state_ = wager_.is_on() ? State::kLooks : State::kSleeps;
  }
  bool is_on() const noexcept { return state_ == State::kLooks; }
  // Nothing has come yet: whether to look once more.
  bool goes_on(TimeNs now) noexcept {
    if (state_ != State::kLooks) return false;
    if (now < began_ + kSpan) return true;
    give_up();
    return false;
  }
  void give_up() noexcept {
    if (state_ == State::kLooks) wager_.lost();
    state_ = State::kOver;
  }
  // The event has come.
  void end(TimeNs now) noexcept {
    if (state_ == State::kLooks) {
      wager_.won();
    } else if (state_ == State::kSleeps && now < began_ + kSpanOfSleeper) {
      wager_.would_have_won();
    } else if (state_ == State::kSleeps) {
      wager_.would_have_lost();
    }
    state_ = State::kOver;
  }

 private:
  enum class State : std::uint8_t { kLooks, kSleeps, kOver };

  Wager wager_;
  TimeNs began_ = 0;
  State state_ = State::kOver;
};

}  // namespace verbena::provider
