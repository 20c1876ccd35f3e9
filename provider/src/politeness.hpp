// How long an application polls in vain before it gives its processor away at each look: longer
// than a round trip takes, since another thread may keep the processor for milliseconds. But where
// what came was there after a short turn of others, it was a peer that needed this very processor
// for its answer: then to spin first is lost to both. So that is learnt, and dearer with each turn
// that took long. Owned by the context, under the receive lock but for note().
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
  // A peer's turn takes longer only if it does something else: it spins for as long, at most.
  static constexpr TimeNs kShort = 2 * kAfter;

  // Nothing has come for so long.
  bool is_due(TimeNs waited) const noexcept { return waited > (wager_.is_on() ? 0 : kAfter); }
  // The thread gave its turn away. Without the lock: of several threads, one may not be counted.
  void note(const Turn& turn) noexcept {
    const Seen seen = !turn.was_taken        ? Seen::kNobody
                      : turn.lasted < kShort ? Seen::kShort
                                             : Seen::kLong;
    seen_.store(std::max(seen_.load(std::memory_order_relaxed), seen), std::memory_order_relaxed);
  }
  // Something has come.
  void found() noexcept {
    if (seen_.load(std::memory_order_relaxed) != Seen::kNothing) learn();
  }

 private:
  enum class Seen : std::uint8_t { kNothing, kNobody, kShort, kLong };

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
};

}  // namespace verbena::provider
