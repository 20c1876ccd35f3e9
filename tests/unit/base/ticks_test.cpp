// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/base/ticks.hpp"

#include <gtest/gtest.h>

#if defined(__x86_64__)

namespace verbena {
namespace {

void spin(int rounds) {
  for (int i = 0; i < rounds; ++i) asm volatile("");
}

// As on an emulated processor, which is the slower the newer something is to it.
TEST(LeastTicks, AreOfWhatIsNewNoMore) {
  constexpr int kNew = 1'000'000;
  int times = 0;
  const std::uint64_t least = least_ticks_of([&] { spin(++times <= 8 ? kNew / times : 10); });
  const std::uint64_t least_of_new = least_ticks_of([&] { spin(kNew / 8); });
  EXPECT_LT(least, least_of_new / 10);
}

TEST(LeastTicks, EndThoughEachTimeIsShorter) {
  double rounds = 3e6;
  int times = 0;
  least_ticks_of([&] {
    spin(static_cast<int>(rounds *= 0.9));
    ++times;
  });
  EXPECT_LE(times, 100);
}

}  // namespace
}  // namespace verbena

#endif
