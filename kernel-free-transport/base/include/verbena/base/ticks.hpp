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

// How many `work` takes, the least of several times: until it has not taken less for a while.
// Another program may have had the processor in between, and an emulated one translates what is new
// to it, which takes a hundred times as long as doing it, and joins the pieces in the times after.
template <typename Work>
std::uint64_t least_ticks_of(Work&& work) noexcept {
  constexpr int kTimesInVain = 10;
  constexpr int kTimesMost = 100;
  std::uint64_t least = ~std::uint64_t{0};
  int in_vain = 0;
  for (int i = 0; i < kTimesMost && in_vain < kTimesInVain; ++i) {
    const std::uint64_t before = read_ticks();
    work();
    const std::uint64_t taken = read_ticks() - before;
    in_vain = taken < least - least / 16 ? 0 : in_vain + 1;
    if (taken < least) least = taken;
  }
  return least;
}

}  // namespace verbena
