// SPDX-License-Identifier: BSD-2-Clause
// Shares of holders that want everything, of those that want little, and of those that come and go.
#include "verbena/limits/fair_share.hpp"

#include <gtest/gtest.h>

namespace verbena::limits {
namespace {

constexpr std::size_t kTotal = 1022;

std::size_t take_all(FairShare& share, Holder holder) {
  while (share.try_take(holder)) {
  }
  return share.held_by(holder);
}

TEST(FairShare, EachWhoTakesAllLeavesAsMuchToTheOthers) {
  FairShare share(kTotal);
  std::size_t left = kTotal;
  for (Holder holder = 1; left > 0; ++holder) {
    const std::size_t taken = take_all(share, holder);
    EXPECT_EQ(taken, left > 1 ? left / 2 : 1) << holder;
    left -= taken;
    EXPECT_EQ(share.left(), left);
    ASSERT_LT(holder, 20u);
  }
  EXPECT_FALSE(share.may_take(99));
}

TEST(FairShare, ManyWhoWantLittleGetAllThereIs) {
  FairShare share(kTotal);
  for (Holder holder = 1; holder <= kTotal; ++holder) ASSERT_TRUE(share.try_take(holder));
  EXPECT_EQ(share.left(), 0u);
}

TEST(FairShare, SeveralAtOnceCountAsThat) {
  FairShare share(10);
  EXPECT_FALSE(share.may_take(1, 11));
  share.take(1);
  EXPECT_TRUE(share.may_take(1, 4));   // 5 of 10
  EXPECT_FALSE(share.may_take(1, 5));  // 6 of 10
}

TEST(FairShare, WhatIsGivenBackIsThereForAll) {
  FairShare share(kTotal);
  const std::size_t first = take_all(share, 1);
  const std::size_t second = take_all(share, 2);
  share.give_back(1, first);
  EXPECT_EQ(share.held_by(1), 0u);
  EXPECT_GT(take_all(share, 2), second);
  share.take_for_nobody(share.left());
  EXPECT_FALSE(share.may_take(3));
}

TEST(FairShare, NothingIsAlwaysThere) {
  FairShare share(4);
  share.take(1, 4);
  EXPECT_TRUE(share.may_take(1, 0));
}

}  // namespace
}  // namespace verbena::limits
