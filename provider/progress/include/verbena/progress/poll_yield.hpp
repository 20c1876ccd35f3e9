// SPDX-License-Identifier: BSD-2-Clause
// Decides when an application that polls in vain yields its processor. By default it yields after
// longer than a round trip takes, because another thread may keep the processor for milliseconds.
// But if a packet was there after another thread's short turn, a peer needed this very processor
// for its answer, and spinning first would cost both sides. That is learned
// (base/adaptive_spin.hpp), and unlearned when a turn took long. Owned by the engine; called under
// the receive lock, except yield().
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "verbena/base/adaptive_spin.hpp"
#include "verbena/base/types.hpp"
#include "verbena/progress/times.hpp"

namespace verbena::provider {

// The outcome of a yield: whether another thread took the processor, and for how long.
struct Turn {
  bool was_taken = false;
  TimeNs lasted = 0;
};

class PollYield {
 public:
  static constexpr TimeNs kAfter = times::kPollYield;

  // Returns whether to yield after nothing has come for `waited`.
  bool is_due(TimeNs waited) const noexcept { return waited > (spin_.is_on() ? 0 : kAfter); }
  // Yields the calling thread's processor.
  void yield() noexcept { note(give_turn()); }
  // Notes a yield. Called without the lock, so one of several threads' yields may not be counted.
  void note(const Turn& turn) noexcept {
    // A peer's turn takes longer only if the peer does something else: it spins for as long, at
    // most.
    const Seen seen = !turn.was_taken            ? Seen::kNobody
                      : turn.lasted < 2 * kAfter ? Seen::kShort
                                                 : Seen::kLong;
    seen_.store(std::max(seen_.load(std::memory_order_relaxed), seen), std::memory_order_relaxed);
  }
  // Notes that something has come.
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
  std::atomic<Seen> seen_{Seen::kNothing};  // seen since something came last
};

}  // namespace verbena::provider
