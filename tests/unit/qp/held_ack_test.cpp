// SPDX-License-Identifier: BSD-2-Clause
// Each edge of the table in held_ack.hpp.
#include "verbena/qp/held_ack.hpp"

#include <gtest/gtest.h>

namespace verbena::qp {
namespace {

using State = HeldAck::State;
constexpr TimeNs kHold = HeldAck::kHold;

class HeldAckTest : public ::testing::Test {
 protected:
  // An ACK goes alone, and the application posts `pause` after it.
  void go_and_post(TimeNs pause) {
    ASSERT_FALSE(ack_.holds(now_));
    ack_.goes_alone(now_);
    ASSERT_EQ(ack_.state(), State::kDue);
    ack_.posted(now_ += pause);
    ASSERT_EQ(ack_.state(), State::kIdle);
  }
  void learn() {
    for (int i = 0; i < 2; ++i) go_and_post(kHold - 1);
  }
  void hold() {
    ASSERT_TRUE(ack_.holds(now_));
    ASSERT_EQ(ack_.state(), State::kHeld);
    ASSERT_EQ(ack_.until(), now_ + kHold);
  }

  HeldAck ack_;
  TimeNs now_ = 1'000'000;
};

TEST_F(HeldAckTest, GoesWhereNobodyPosts) {
  for (int i = 0; i < 50; ++i) {
    ASSERT_FALSE(ack_.holds(now_));
    ack_.goes_alone(now_);
    ASSERT_EQ(ack_.state(), State::kDue);
    now_ += 1'000;
  }
}

TEST_F(HeldAckTest, GoesWherePostsAreLate) {
  for (int i = 0; i < 50; ++i) ASSERT_NO_FATAL_FAILURE(go_and_post(kHold));
}

TEST_F(HeldAckTest, IsHeldOnceTwoPostsCameSoon) {
  learn();
  hold();
}

TEST_F(HeldAckTest, ALatePostInBetweenBeginsAnew) {
  go_and_post(kHold - 1);
  go_and_post(kHold);
  learn();
  hold();
}

TEST_F(HeldAckTest, GoesWithAPost) {
  learn();
  for (int i = 0; i < 50; ++i) {
    ASSERT_NO_FATAL_FAILURE(hold());
    ack_.posted(now_ += 1'000);
    ASSERT_EQ(ack_.state(), State::kIdle);
  }
}

TEST_F(HeldAckTest, KeepsItsTimeWhenAnotherIsOwed) {
  learn();
  hold();
  const TimeNs until = ack_.until();
  EXPECT_TRUE(ack_.holds(now_ + 5'000));
  EXPECT_EQ(ack_.until(), until);
}

TEST_F(HeldAckTest, IsNotHeldAgainAtOnceAfterItsTime) {
  learn();
  hold();
  ack_.goes_alone(now_ += kHold);
  EXPECT_EQ(ack_.state(), State::kDue);
  // Now twice as many posts must come soon.
  for (int i = 0; i < 4; ++i) ASSERT_NO_FATAL_FAILURE(go_and_post(1));
  hold();
}

TEST_F(HeldAckTest, IsHeldAgainWhereItHadToGoSooner) {
  learn();
  hold();
  ack_.goes_alone(now_ + kHold - 1);
  EXPECT_EQ(ack_.state(), State::kDue);
  EXPECT_TRUE(ack_.holds(now_));
}

TEST_F(HeldAckTest, IsIdleWhenDataTookItAlong) {
  learn();
  hold();
  ack_.was_taken_along();
  EXPECT_EQ(ack_.state(), State::kIdle);
  hold();
}

TEST_F(HeldAckTest, WhatWentAloneIsRemembered) {
  ack_.goes_alone(now_);
  ack_.was_taken_along();
  EXPECT_EQ(ack_.state(), State::kDue);
}

TEST_F(HeldAckTest, APostThatAnswersNothingSaysNothing) {
  for (int i = 0; i < 10; ++i) ack_.posted(now_ += 1);
  EXPECT_FALSE(ack_.holds(now_));
}

}  // namespace
}  // namespace verbena::qp
