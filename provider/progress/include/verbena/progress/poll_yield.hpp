// SPDX-License-Identifier: BSD-2-Clause
// When an application that polls in vain gives its processor away: after longer than a round trip
// takes, since another thread may keep the processor for milliseconds. But where what came was
// there after a short turn of another thread, a peer needed this very processor for its answer, and
// to spin first costs both of them. So that is learned (base/adaptive_spin.hpp), and unlearned when
// a turn took long. Owned by the engine, under the receive lock but for yield().
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "verbena/base/adaptive_spin.hpp"
#include "verbena/base/types.hpp"
#include "verbena/progress/times.hpp"

namespace verbena::provider {

// That was given away.
struct Turn {
  bool was_taken = false;
  TimeNs lasted = 0;
};

class PollYield {
 public:
  static constexpr TimeNs kAfter = times::kPollYield;

  // Nothing has come for so long.
  bool is_due(TimeNs waited) const noexcept { return waited > (spin_.is_on() ? 0 : kAfter); }
  // Gives the calling thread's turn away.
  void yield() noexcept { note(give_turn()); }
  // A turn was given away. Without the lock: of several threads, one may not be counted.
  void note(const Turn& turn) noexcept {
    // A peer's turn takes longer only if it does something else: it spins for as long, at most.
    const Seen seen = !turn.was_taken            ? Seen::kNobody
                      : turn.lasted < 2 * kAfter ? Seen::kShort
                                                 : Seen::kLong;
    seen_.store(std::max(seen_.load(std::memory_order_relaxed), seen), std::memory_order_relaxed);
  }
  // Something has come.
  void found() noexcept {
    if (seen_.load(std::memory_order_relaxed) != Seen::kNothing) learn();
  }
  static Turn give_turn() noexcept;

 private:
  enum class Seen : std::uint8_t { kNothing, kNobody, kShort, kLong };

  void learn() noexcept {
    const Seen seen = seen_.exchange(Seen::kNothing, std::memory_order_relaxed);
    if (seen == Seen::kShort) {
      spin_.is_on() ? spin_.won() : spin_.would_have_won();
    } else if (seen == Seen::kNobody) {
      spin_.was_idle();
    } else if (spin_.is_on()) {
      spin_.lost_dearly();
    } else {
      spin_.would_have_lost();
    }
  }

  AdaptiveSpin spin_;
  std::atomic<Seen> seen_{Seen::kNothing};  // since something came
};

}  // namespace verbena::provider
