// SPDX-License-Identifier: BSD-2-Clause
// How often a context that is polled in vain looks after the others of its process.
#include "verbena/progress/neighbourhood.hpp"

#include <gtest/gtest.h>

namespace verbena::provider {
namespace {

struct Neighbour1 final : Neighbour {
  bool drive_undriven(Undriven which, std::uint32_t&) noexcept override {
    ++looks;
    looks_at_any += which == Undriven::kAny;
    return is_undriven;
  }

  bool is_undriven = false;
  int looks = 0;
  int looks_at_any = 0;
};

class NeighbourhoodTest : public testing::Test {
 protected:
  NeighbourhoodTest() {
    ours_.reserve(2);
    ours_.add(one_);
    ours_.add(other_);
  }
  void look(int times) {
    for (int i = 0; i < times; ++i) ours_.look(Undriven::kParked);
  }

  Neighbour1 one_;
  Neighbour1 other_;
  Neighbourhood ours_;
};

TEST_F(NeighbourhoodTest, IsLookedAtEachTimeWhereNobodyElsePolls) {
  one_.is_undriven = other_.is_undriven = true;
  look(100);
  EXPECT_EQ(one_.looks, 100);
  EXPECT_EQ(other_.looks, 100);
}

TEST_F(NeighbourhoodTest, IsLookedAtEverMoreSeldomWhereSomebodyElsePolls) {
  other_.is_undriven = true;
  look(1 + 2 + 4 + 8 + 16 + 32);
  EXPECT_EQ(one_.looks, 6);
  look(10 * 64);
  EXPECT_EQ(one_.looks, 16);
  EXPECT_EQ(other_.looks, 63 + 640);
}

TEST_F(NeighbourhoodTest, IsLookedAtEachTimeAgainOnceNobodyDoes) {
  look(1000);
  one_.is_undriven = true;
  one_.looks = 0;
  look(64);
  EXPECT_GE(one_.looks, 1);
  const int before = one_.looks;
  look(100);
  EXPECT_EQ(one_.looks, before + 100);
}

TEST_F(NeighbourhoodTest, HasAllLookedAtByWhoHasPolledInVainForLong) {
  look(1000);
  one_.looks = other_.looks = 0;
  ours_.look(Undriven::kAny);
  EXPECT_EQ(one_.looks_at_any, 1);
  EXPECT_EQ(other_.looks_at_any, 1);
  EXPECT_EQ(one_.looks + other_.looks, 2);
}

TEST_F(NeighbourhoodTest, ForgetsWhoHasGone) {
  one_.is_undriven = other_.is_undriven = true;
  ours_.remove(one_);
  look(1);
  EXPECT_EQ(one_.looks, 0);
  EXPECT_EQ(other_.looks, 1);
  ours_.remove(other_);
  look(1);
  EXPECT_EQ(other_.looks, 1);
  ours_.add(one_);
  look(1);
  EXPECT_EQ(one_.looks, 1);
}

// One of its threads is at it, and the others do not wait.
TEST_F(NeighbourhoodTest, IsLeftAloneWhileAnotherThreadLooks) {
  const Guard guard(ours_.lock());
  look(10);
  EXPECT_EQ(one_.looks, 0);
}

}  // namespace
}  // namespace verbena::provider
