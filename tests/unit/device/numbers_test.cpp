// SPDX-License-Identifier: BSD-2-Clause
// Tests which numbers queue pairs get: each once, none again soon, in an order that is hard to
// guess.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "verbena/device/number_pool.hpp"

namespace verbena::device {
namespace {

std::vector<std::uint32_t> taken(NumberPool& pool, std::size_t count) {
  std::vector<std::uint32_t> all;
  while (all.size() < count) all.push_back(pool.take().value());
  return all;
}

TEST(NumberPoolTest, EachNumberIsGivenOnce) {
  UnpredictableRandom random(1);
  NumberPool pool(random, 0);
  const auto all = taken(pool, NumberPool::kNumbers);
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), NumberPool::kNumbers);
  EXPECT_FALSE(pool.take());
  pool.give_back(all[77]);
  EXPECT_EQ(pool.take(), all[77]);
}

TEST(NumberPoolTest, ReservedOnesAreNeverGiven) {
  UnpredictableRandom random(2);
  NumberPool pool(random, 16);
  const auto all = taken(pool, NumberPool::kNumbers - 16);
  EXPECT_GE(*std::min_element(all.begin(), all.end()), 16u);
  EXPECT_FALSE(pool.take());
}

// A late packet of an old connection finds no queue pair, because all other numbers come first.
TEST(NumberPoolTest, ANumberThatWasGivenBackRestsUntilAllOthersHadTheirTurn) {
  UnpredictableRandom random(3);
  NumberPool pool(random, 0);
  const auto held = taken(pool, 1000);
  const std::uint32_t number = pool.take().value();
  pool.give_back(number);
  for (std::uint32_t i = 0; i < NumberPool::kNumbers - 1001; ++i) {
    const std::uint32_t next = pool.take().value();
    ASSERT_NE(next, number) << i;
    pool.give_back(next);
  }
  EXPECT_EQ(pool.take(), number);
}

TEST(NumberPoolTest, TheirOrderIsTheSeeds) {
  UnpredictableRandom first(4);
  UnpredictableRandom again(4);
  UnpredictableRandom other(5);
  NumberPool a(first, 0);
  NumberPool b(again, 0);
  NumberPool c(other, 0);
  const auto of_a = taken(a, 100);
  EXPECT_EQ(taken(b, 100), of_a);
  EXPECT_NE(taken(c, 100), of_a);
}

// No step between one number and the next, or over several numbers, repeats often.
TEST(NumberPoolTest, NoStepIsUsual) {
  UnpredictableRandom random(6);
  NumberPool pool(random, 0);
  const auto all = taken(pool, 4096);
  for (const std::size_t distance : {1u, 2u, 128u}) {
    std::vector<int> steps(NumberPool::kNumbers);
    for (std::size_t i = distance; i < all.size(); ++i) {
      ++steps[(all[i] - all[i - distance]) % NumberPool::kNumbers];
    }
    EXPECT_LT(*std::max_element(steps.begin(), steps.end()), 64) << distance;
  }
}

}  // namespace
}  // namespace verbena::device
