// SPDX-License-Identifier: BSD-2-Clause
// How long an application polls in vain before it gives its processor away at each look: longer
// than a round trip takes, since another thread may keep the processor for milliseconds. But where
// what came was there after a short turn of others, it was a peer that needed this very processor
// for its answer: then to spin first is lost to both. So that is learnt, and dearer with each turn
// that took long. Where a turn that nobody takes is itself long, so is a round trip: an emulated
// processor needs many times as much for both. Owned by the context, under the receive lock but for
// note().
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "courtesy.hpp"
#include "verbena/base/types.hpp"
#include "verbena/base/wager.hpp"

namespace verbena::provider {

class Politeness {
 public:
  static constexpr TimeNs kAfter = 60'000;
  static constexpr TimeNs kAfterMost = 20 * kAfter;
  static constexpr TimeNs kTurnsOfNobody = 64;

  // Nothing has come for so long.
  bool is_due(TimeNs waited) const noexcept { return waited > (wager_.is_on() ? 0 : after()); }
  // The thread gave its turn away. Without the lock: of several threads, one may not be counted.
  void note(const Turn& turn) noexcept {
    if (!turn.was_taken) note_nobody(turn.lasted);
    // A peer's turn takes longer only if it does something else: it spins for as long, at most.
    const Seen seen = !turn.was_taken             ? Seen::kNobody
                      : turn.lasted < 2 * after() ? Seen::kShort
                                                  : Seen::kLong;
    seen_.store(std::max(seen_.load(std::memory_order_relaxed), seen), std::memory_order_relaxed);
  }
  // Something has come.
  void found() noexcept {
    if (seen_.load(std::memory_order_relaxed) != Seen::kNothing) learn();
  }

 private:
  enum class Seen : std::uint8_t { kNothing, kNobody, kShort, kLong };

  TimeNs after() const noexcept {
    return std::clamp(kTurnsOfNobody * of_nobody_.load(std::memory_order_relaxed), kAfter,
                      kAfterMost);
  }
  // By the shortest of late.
  void note_nobody(TimeNs lasted) noexcept {
    const TimeNs before = of_nobody_.load(std::memory_order_relaxed);
    const TimeNs now = before == 0 ? lasted : std::min(before + before / 64 + 1, lasted);
    of_nobody_.store(now, std::memory_order_relaxed);
  }
  [[gnu::noinline]] void learn() noexcept {
    const Seen seen = seen_.exchange(Seen::kNothing, std::memory_order_relaxed);
    if (seen == Seen::kShort) {
      wager_.is_on() ? wager_.won() : wager_.would_have_won();
    } else if (seen == Seen::kNobody) {
      wager_.was_idle();
    } else if (wager_.is_on()) {
      wager_.lost_dearly();
    } else {
      wager_.would_have_lost();
    }
  }

  Wager wager_;
  std::atomic<Seen> seen_{Seen::kNothing};  // since something came
  std::atomic<TimeNs> of_nobody_{0};        // how long such a turn is
};

}  // namespace verbena::provider
