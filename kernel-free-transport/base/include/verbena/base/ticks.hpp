// SPDX-License-Identifier: BSD-2-Clause
// The processor's tick counter (x86-64 only; elsewhere always 0). It has the same rate on every
// processor of a host, usually 1 to 5 ticks per nanosecond, and one instruction reads it.
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
