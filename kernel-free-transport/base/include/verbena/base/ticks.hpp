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

// How many `work` takes, the least of a few times: another program may have had the processor in
// between.
template <typename Work>
std::uint64_t least_ticks_of(Work&& work) noexcept {
  constexpr int kTimes = 5;
  std::uint64_t least = ~std::uint64_t{0};
  for (int i = 0; i < kTimes; ++i) {
    const std::uint64_t before = read_ticks();
    work();
    const std::uint64_t taken = read_ticks() - before;
    if (taken < least) least = taken;
  }
  return least;
}

}  // namespace verbena
