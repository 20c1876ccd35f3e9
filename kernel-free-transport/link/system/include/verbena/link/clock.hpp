// SPDX-License-Identifier: BSD-2-Clause
// The clocks of the process. The engine has none: the thread that drives it passes the time in, and
// reads the clock once per batch of work (22 ns).
#pragma once

#include <time.h>

#include "verbena/base/types.hpp"

namespace verbena::link {

// A source of time that a test may replace.
using Clock = TimeNs (*)() noexcept;

inline TimeNs read_clock(clockid_t id) noexcept {
  timespec now{};
  ::clock_gettime(id, &now);
  return static_cast<TimeNs>(now.tv_sec) * 1'000'000'000u + static_cast<TimeNs>(now.tv_nsec);
}

// Never steps back. All deadlines are measured on this clock.
inline TimeNs monotonic_now_ns() noexcept { return read_clock(CLOCK_MONOTONIC); }
// Counts from 1970, for captures and time stamps that people read.
inline TimeNs realtime_now_ns() noexcept { return read_clock(CLOCK_REALTIME); }

}  // namespace verbena::link
