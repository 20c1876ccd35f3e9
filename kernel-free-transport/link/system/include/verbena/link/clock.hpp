// SPDX-License-Identifier: BSD-2-Clause
// The clocks of the process. The engine has none; whoever drives it passes these in, one reading
// per batch of work (22 ns each, the coarse one 5 ns).
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

// Never steps back; what every deadline is measured on.
inline TimeNs monotonic_now_ns() noexcept { return read_clock(CLOCK_MONOTONIC); }
// Since 1970, for captures and time stamps that people read.
inline TimeNs realtime_now_ns() noexcept { return read_clock(CLOCK_REALTIME); }

}  // namespace verbena::link
