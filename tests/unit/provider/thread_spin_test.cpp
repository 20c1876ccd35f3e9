// SPDX-License-Identifier: BSD-2-Clause
// When the progress thread spins, and when it has learnt that spinning is in vain.
#include "verbena/progress/thread_spin.hpp"

#include <gtest/gtest.h>

namespace verbena::provider::thread_spin {
namespace {

constexpr TimeNs kSoon = ThreadSpin::kSpan / 4;

class ThreadSpinTest : public ::testing::Test {
 protected:
  bool looks_after(TimeNs pause) {
    now_ += pause;
    return thread_spin_.found(now_) > now_;
  }
  // Spins in vain. Returns how many short pauses it then takes until the thread spins again.
  int lose() {
    now_ += ThreadSpin::kSpan;
    thread_spin_.gave_up();
    EXPECT_FALSE(looks_after(ThreadSpin::kSpanOfSleeper)) << "that came too late";
    for (int pauses = 1;; ++pauses) {
      if (looks_after(kSoon)) return pauses;
    }
  }

  ThreadSpin thread_spin_;
  TimeNs now_ = 1'000'000;
};

TEST_F(ThreadSpinTest, LooksOnceMoreOftenComesSoon) {
  EXPECT_FALSE(looks_after(0));
  EXPECT_FALSE(looks_after(kSoon));
  EXPECT_TRUE(looks_after(kSoon));
  EXPECT_TRUE(looks_after(kSoon));
}

TEST_F(ThreadSpinTest, DoesNotLookWhereAllComesLate) {
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(looks_after(ThreadSpin::kSpanOfSleeper));
}

TEST_F(ThreadSpinTest, DoesNotTakeItsOwnWakingForTheSendersPace) {
  EXPECT_FALSE(looks_after(0));
  EXPECT_FALSE(looks_after(2 * ThreadSpin::kSpan));
  EXPECT_TRUE(looks_after(2 * ThreadSpin::kSpan));
}

TEST_F(ThreadSpinTest, EachLookInVainMakesTheNextDearer) {
  while (!looks_after(kSoon)) {
  }
  EXPECT_EQ(lose(), 4);
  EXPECT_EQ(lose(), 8);
  EXPECT_EQ(lose(), 16);
  for (int i = 0; i < 20; ++i) lose();
  EXPECT_EQ(lose(), 2048) << "and not beyond";
}

TEST_F(ThreadSpinTest, WhatIsFoundMakesItCheaperAgain) {
  while (!looks_after(kSoon)) {
  }
  for (int i = 0; i < 5; ++i) lose();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(looks_after(kSoon));
  EXPECT_EQ(lose(), 4);
}

TEST_F(ThreadSpinTest, AStopIsNoLoss) {
  while (!looks_after(kSoon)) {
  }
  for (int i = 0; i < 10; ++i) {
    EXPECT_LT(thread_spin_.stop(), now_);
    ASSERT_TRUE(looks_after(kSoon));
  }
}

}  // namespace
}  // namespace verbena::provider::thread_spin
