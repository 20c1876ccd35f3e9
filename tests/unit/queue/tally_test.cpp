// SPDX-License-Identifier: BSD-2-Clause
#include <gtest/gtest.h>

#include "verbena/queue/occurrence.hpp"

namespace verbena::queue {
namespace {

TEST(Tally, TellsTheFirstAndThenEverMoreTogether) {
  Tally tally;
  EXPECT_EQ(tally.add(1), 1u);
  std::uint32_t lines = 0;
  std::uint32_t told = 1;
  for (int i = 0; i < 100'000; ++i) {
    const std::uint32_t now = tally.add(1);
    lines += now != 0 ? 1 : 0;
    told += now;
  }
  EXPECT_EQ(lines, 4u);  // 10, 100, 1000, 10000
  EXPECT_EQ(told + tally.take_rest(), 100'001u);
  EXPECT_EQ(tally.take_rest(), 0u);
}

TEST(Tally, ManyAtOnceAreOneLine) {
  Tally tally;
  EXPECT_EQ(tally.add(4000), 4000u);
  EXPECT_EQ(tally.add(9999), 0u);
  EXPECT_EQ(tally.add(1), 10'000u);
}

}  // namespace
}  // namespace verbena::queue
