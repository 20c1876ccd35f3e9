// SPDX-License-Identifier: BSD-2-Clause
// When the progress thread looks on, and when it has learnt that it is in vain.
#include "lookout.hpp"

#include <gtest/gtest.h>

namespace verbena::provider {
namespace {

constexpr TimeNs kSoon = Lookout::kSpan / 4;

class LookoutTest : public ::testing::Test {
 protected:
  bool looks_after(TimeNs pause) {
    now_ += pause;
    return lookout_.found(now_) > now_;
  }
  // Nothing comes; how many short pauses it then takes until it looks again.
  int lose() {
    now_ += Lookout::kSpan;
    lookout_.gave_up();
    EXPECT_FALSE(looks_after(Lookout::kSpanOfSleeper)) << "that came too late";
    for (int pauses = 1;; ++pauses) {
      if (looks_after(kSoon)) return pauses;
    }
  }

  Lookout lookout_;
  TimeNs now_ = 1'000'000;
};

TEST_F(LookoutTest, LooksOnceMoreOftenComesSoon) {
  EXPECT_FALSE(looks_after(0));
  EXPECT_FALSE(looks_after(kSoon));
  EXPECT_TRUE(looks_after(kSoon));
  EXPECT_TRUE(looks_after(kSoon));
}

TEST_F(LookoutTest, DoesNotLookWhereAllComesLate) {
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(looks_after(Lookout::kSpanOfSleeper));
}

TEST_F(LookoutTest, DoesNotTakeItsOwnWakingForTheSendersPace) {
  EXPECT_FALSE(looks_after(0));
  EXPECT_FALSE(looks_after(2 * Lookout::kSpan));
  EXPECT_TRUE(looks_after(2 * Lookout::kSpan));
}

TEST_F(LookoutTest, EachLookInVainMakesTheNextDearer) {
  while (!looks_after(kSoon)) {
  }
  EXPECT_EQ(lose(), 4);
  EXPECT_EQ(lose(), 8);
  EXPECT_EQ(lose(), 16);
  for (int i = 0; i < 20; ++i) lose();
  EXPECT_EQ(lose(), 2048) << "and not beyond";
}

TEST_F(LookoutTest, WhatIsFoundMakesItCheaperAgain) {
  while (!looks_after(kSoon)) {
  }
  for (int i = 0; i < 5; ++i) lose();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(looks_after(kSoon));
  EXPECT_EQ(lose(), 4);
}

TEST_F(LookoutTest, AStopIsNoLoss) {
  while (!looks_after(kSoon)) {
  }
  for (int i = 0; i < 10; ++i) {
    EXPECT_LT(lookout_.stop(), now_);
    ASSERT_TRUE(looks_after(kSoon));
  }
}

}  // namespace
}  // namespace verbena::provider
