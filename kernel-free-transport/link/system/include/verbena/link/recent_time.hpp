// SPDX-License-Identifier: BSD-2-Clause
// The time as it was a few microseconds ago at most, for whoever has just looked: a message that
// follows another one at once need not read the clock (22 ns). How long ago that was says the
// processor's tick counter, one instruction; where there is none, nothing is ever recent.
//
// One thread at a time looks, any may ask. A deadline that is worked out from a recent time comes
// so much sooner, never later.
#pragma once

#include <atomic>
#include <cstdint>

#include "verbena/base/ticks.hpp"
#include "verbena/base/types.hpp"
#include "verbena/link/clock.hpp"

namespace verbena::link {

template <Clock kClock, std::uint64_t (*kTicks)() noexcept>
class RecentTimeOf {
 public:
  // 3 to 16 us. Far less than any deadline of the engine, and less than an acknowledgement is held.
  static constexpr std::uint64_t kSpan = 16'384;

  // Reads the clock. The ticks before it, so that what is between makes the time older, not newer.
  [[gnu::noinline]] TimeNs look() noexcept {
    const std::uint64_t ticks = kTicks();
    const TimeNs now = kClock();
    time_.store(now, std::memory_order_release);
    ticks_.store(ticks, std::memory_order_release);
    return now;
  }
  // What it said when it was last looked at, if that is recent; else it is read.
  TimeNs now() const noexcept { return is_recent() ? last() : kClock(); }
  // So, too, for who may look.
  TimeNs now_or_look() noexcept { return is_recent() ? last() : look(); }

 private:
  // A counter that seems to have gone back makes it not recent, either.
  bool is_recent() const noexcept {
    const std::uint64_t looked = ticks_.load(std::memory_order_acquire);
    return looked != 0 && kTicks() - looked < kSpan;
  }
  // Asked after the ticks: of this look, or of a later one.
  TimeNs last() const noexcept { return time_.load(std::memory_order_acquire); }

  std::atomic<std::uint64_t> ticks_{0};
  std::atomic<TimeNs> time_{0};
};

using RecentTime = RecentTimeOf<&monotonic_now_ns, &read_ticks>;

}  // namespace verbena::link
