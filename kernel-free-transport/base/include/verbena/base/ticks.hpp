// SPDX-License-Identifier: BSD-2-Clause
// What the processor counts by itself: at the same rate on every processor of a host, 1 to 5 in a
// nanosecond as a rule, read by one instruction. Always 0 where there is no such counter.
#pragma once

#include <cstdint>

namespace verbena {

inline std::uint64_t read_ticks() noexcept {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return 0;
#endif
}

}  // namespace verbena
