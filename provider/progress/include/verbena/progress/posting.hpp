// SPDX-License-Identifier: BSD-2-Clause
// Tells whether the application posts request after request without polling in between, and
// therefore should receive what has come meanwhile. Any thread; a word is written now and then, not
// by each post.
#pragma once

#include <atomic>
#include <cstdint>

#include "verbena/base/types.hpp"
#include "verbena/progress/times.hpp"

namespace verbena::provider {

class Posting {
 public:
  // Called for each post that has read the clock. `looks` changes with each poll and each wait.
  bool goes_on(TimeNs now, std::uint32_t looks) noexcept {
    const TimeNs last = last_.load(std::memory_order_relaxed);
    if (now > last + times::kPostPause) since_.store(now, std::memory_order_relaxed);
    if (now > last + times::kPostGrain) last_.store(now, std::memory_order_relaxed);
    if (now <= since_.load(std::memory_order_relaxed) + times::kPostingLong) return false;
    if (looks_.load(std::memory_order_relaxed) == looks) return true;
    looks_.store(looks, std::memory_order_relaxed);
    since_.store(now, std::memory_order_relaxed);
    return false;
  }

 private:
  std::atomic<TimeNs> last_{0};
  std::atomic<TimeNs> since_{0};
  std::atomic<std::uint32_t> looks_{0};
};

}  // namespace verbena::provider
