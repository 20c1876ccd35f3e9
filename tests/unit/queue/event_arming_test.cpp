// SPDX-License-Identifier: BSD-2-Clause
// Tests which completions an event reports, by their positions. arming_test.cpp tests it with a
// queue.
#include "verbena/queue/event_arming.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace verbena::queue {
namespace {

class EventArmingTest : public ::testing::Test {
 protected:
  bool push(bool matters = false) { return arming_.note_pushed(++end_, matters); }
  Arming arm(bool solicited_only = false) {
    return arming_.arm(head_, end_, solicited_only, fires_);
  }

  EventArming arming_;
  std::uint64_t head_ = 0;
  std::uint64_t end_ = 0;
  bool fires_ = false;
};

TEST_F(EventArmingTest, OnlyWhoAskedIsTold) {
  EXPECT_FALSE(push(true));
  head_ = end_;
  EXPECT_EQ(arm(), Arming::kWaits);
  EXPECT_FALSE(fires_);
  EXPECT_TRUE(push());
  EXPECT_FALSE(push()) << "one event for each time";
}

TEST_F(EventArmingTest, WhatLiesThereIsToldAtOnceAndEachOnce) {
  push();
  push();
  EXPECT_EQ(arm(), Arming::kFired);
  EXPECT_TRUE(fires_);
  EXPECT_EQ(arm(), Arming::kFired);
  EXPECT_EQ(arm(), Arming::kWaits) << "both were told";
  EXPECT_FALSE(fires_);
}

// A program may poll for hours before it arms the queue.
TEST_F(EventArmingTest, WhatLiesThereIsToldAfterAnyNumberOfPolledOnes) {
  for (const std::uint64_t polled : {1ull << 31, (1ull << 32) - 2, 1ull << 33}) {
    for (const bool solicited_only : {false, true}) {
      head_ = end_ += polled;
      push(false);
      EXPECT_EQ(arm(solicited_only), solicited_only ? Arming::kWaits : Arming::kFired) << polled;
      arming_.disarm();
    }
  }
}

TEST_F(EventArmingTest, WhoAsksForSolicitedOnesIsNotToldOfOthers) {
  push();
  EXPECT_EQ(arm(true), Arming::kWaits);
  EXPECT_EQ(arming_.armed(), ArmedFor::kSolicited);
  EXPECT_FALSE(push(false));
  EXPECT_TRUE(push(true));
  EXPECT_EQ(arming_.armed(), ArmedFor::kNothing);
}

TEST_F(EventArmingTest, ModerationCountsToItsNumber) {
  arming_.moderate(3, end_);
  arm();
  EXPECT_FALSE(push());
  EXPECT_FALSE(push());
  EXPECT_TRUE(push());
}

TEST_F(EventArmingTest, LowerModerationTellsOnlyOfWhatIsWaitedFor) {
  arming_.moderate(10, end_);
  push();
  push();
  EXPECT_EQ(arm(true), Arming::kWaits);
  EXPECT_FALSE(arming_.moderate(1, end_)) << "nothing solicited is there";
  EXPECT_EQ(arming_.armed(), ArmedFor::kSolicited);
  arming_.moderate(10, end_);
  EXPECT_FALSE(push(true));
  EXPECT_TRUE(arming_.moderate(1, end_));
  EXPECT_EQ(arming_.armed(), ArmedFor::kNothing);
}

TEST_F(EventArmingTest, ModerationCountsWhatLiesThere) {
  arming_.moderate(3, end_);
  push();
  push();
  EXPECT_EQ(arm(), Arming::kWaits);
  arming_.disarm();
  push();
  EXPECT_EQ(arm(), Arming::kFired);
}

TEST_F(EventArmingTest, ARequestForAnyIsNotWeakened) {
  arm();
  EXPECT_EQ(arm(true), Arming::kWaitedBefore);
  EXPECT_TRUE(push(false));
}

TEST_F(EventArmingTest, PositionsMayBeAnything) {
  head_ = end_ = 0xfffffffe;
  arming_.cut(head_, end_);
  EXPECT_EQ(arm(), Arming::kWaits);
  EXPECT_TRUE(push());
  head_ = end_;
  for (int i = 0; i < 4; ++i) push(true);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(arm(true), Arming::kFired) << i;
  EXPECT_EQ(arm(true), Arming::kWaits);
}

// After two billion completions an old mark must not look new.
TEST_F(EventArmingTest, AnOldSolicitedOneIsNoNewsAfterHalfARound) {
  push(true);
  head_ = end_;
  arm(true);
  arming_.disarm();
  head_ = end_ = 0x70000000;
  arm(true);
  arming_.disarm();
  head_ = end_ = 0xe0000000;
  EXPECT_EQ(arm(true), Arming::kWaits);
}

TEST_F(EventArmingTest, WhatWasTakenOutIsNoNews) {
  push(true);
  push(true);
  end_ = 0;
  arming_.cut(head_, end_);
  EXPECT_EQ(arm(), Arming::kWaits);
}

TEST_F(EventArmingTest, WhatComesInThePlaceOfWhatWasTakenOutIsNews) {
  arm();
  EXPECT_TRUE(push());
  end_ = 0;
  arming_.cut(head_, end_);
  push();
  EXPECT_EQ(arm(), Arming::kFired);
}

TEST_F(EventArmingTest, PositionsMayStartAnew) {
  head_ = end_ = 100;
  arming_.cut(head_, end_);
  arm();
  push();
  push();  // no event has reported this one
  arming_.restart_at(head_);
  end_ -= head_;
  head_ = 0;
  EXPECT_EQ(arm(), Arming::kFired);
  EXPECT_EQ(arm(), Arming::kWaits);
}

TEST_F(EventArmingTest, DisarmSaysWhetherItWasArmed) {
  EXPECT_FALSE(arming_.disarm());
  arm();
  EXPECT_EQ(arm(), Arming::kWaitedBefore);
  EXPECT_TRUE(arming_.disarm());
  EXPECT_FALSE(push());
}

}  // namespace
}  // namespace verbena::queue
