// SPDX-License-Identifier: BSD-2-Clause
// The time as it was a few microseconds ago at most, if a thread has read the clock that recently:
// a message that follows another one at once need not read the clock (22 ns). The processor's tick
// counter, one instruction, says how long ago that was; without such a counter nothing is ever
// recent.
//
// One thread at a time calls look(), any thread now(). A deadline that is computed from a recent
// time comes earlier by the age of that time, never later.
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
  // These ticks take 3 to 16 us: far less than any deadline of the engine, and less than an
  // acknowledgement is held.
  static constexpr std::uint64_t kSpan = 16'384;

  // Reads the clock. The ticks are read first: a delay between the two makes the time older, not
  // newer.
  [[gnu::noinline]] TimeNs look() noexcept {
    const std::uint64_t ticks = kTicks();
    const TimeNs now = kClock();
    time_.store(now, std::memory_order_release);
    ticks_.store(ticks, std::memory_order_release);
    return now;
  }
  // Returns the time of the last look() if that is recent; otherwise reads the clock.
  TimeNs now() const noexcept { return is_recent() ? last() : kClock(); }
  // Does what now() does, and keeps the time that it reads. For the thread that may call look().
  TimeNs now_or_look() noexcept { return is_recent() ? last() : look(); }

 private:
  // A counter that seems to have gone back makes the time not recent either.
  bool is_recent() const noexcept {
    const std::uint64_t looked = ticks_.load(std::memory_order_acquire);
    return looked != 0 && kTicks() - looked < kSpan;
  }
  // Called after the ticks were read: returns the time of their look() or of a later one.
  TimeNs last() const noexcept { return time_.load(std::memory_order_acquire); }

  std::atomic<std::uint64_t> ticks_{0};
  std::atomic<TimeNs> time_{0};
};

using RecentTime = RecentTimeOf<&monotonic_now_ns, &read_ticks>;

}  // namespace verbena::link
