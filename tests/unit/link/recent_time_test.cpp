// SPDX-License-Identifier: BSD-2-Clause
// How long a look at the clock stays valid, by a counter that the test turns. The two words of the
// recent time fit together for threads that ask while another one looks.
#include "verbena/link/recent_time.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace verbena::link {
namespace {

std::uint64_t ticks = 0;
TimeNs time_now = 0;
int readings = 0;

std::uint64_t fake_ticks() noexcept { return ticks; }
TimeNs fake_clock() noexcept {
  ++readings;
  return time_now;
}

using Time = RecentTimeOf<&fake_clock, &fake_ticks>;

class RecentTimeTest : public testing::Test {
 protected:
  void SetUp() override {
    ticks = 1'000'000;
    time_now = 5'000;
    readings = 0;
  }
  Time recent_;
};

TEST_F(RecentTimeTest, WhoNeverLookedReadsTheClock) {
  EXPECT_EQ(recent_.now(), 5'000u);
  EXPECT_EQ(recent_.now(), 5'000u);
  EXPECT_EQ(readings, 2);  // asking is not looking
}

TEST_F(RecentTimeTest, WhatWasLookedAtHoldsForTheSpan) {
  EXPECT_EQ(recent_.look(), 5'000u);
  time_now = 9'000;
  ticks += Time::kSpan - 1;
  EXPECT_EQ(recent_.now(), 5'000u);
  EXPECT_EQ(recent_.now_or_look(), 5'000u);
  EXPECT_EQ(readings, 1);
  ++ticks;
  EXPECT_EQ(recent_.now(), 9'000u);
  EXPECT_EQ(readings, 2);
}

TEST_F(RecentTimeTest, WhoMayLookDoesSoOnceItIsOld) {
  recent_.look();
  ticks += Time::kSpan;
  time_now = 9'000;
  EXPECT_EQ(recent_.now_or_look(), 9'000u);
  time_now = 10'000;
  EXPECT_EQ(recent_.now_or_look(), 9'000u);
  EXPECT_EQ(readings, 2);
}

TEST_F(RecentTimeTest, ACounterThatGoesBackIsNotBelieved) {
  recent_.look();
  ticks -= 1;
  time_now = 9'000;
  EXPECT_EQ(recent_.now(), 9'000u);
}

TEST_F(RecentTimeTest, WithoutACounterNothingIsRecent) {
  ticks = 0;
  recent_.look();
  time_now = 9'000;
  EXPECT_EQ(recent_.now(), 9'000u);
  EXPECT_EQ(recent_.now_or_look(), 9'000u);
}

// The real clock. An answer is never later than the clock read afterwards, and never older than a
// look that was seen before.
TEST(RecentTime, WhoAsksWhileAnotherLooksGetsATimeOfThatLookOrALaterOne) {
  RecentTime recent;
  std::atomic<TimeNs> looked{recent.look()};
  const std::jthread looker([&](const std::stop_token& ends) {
    while (!ends.stop_requested()) looked.store(recent.look());
  });
  for (int i = 0; i < 100'000; ++i) {
    const TimeNs before = looked.load();
    const TimeNs asked = recent.now();
    const TimeNs after = monotonic_now_ns();
    ASSERT_GE(asked, before);
    ASSERT_LE(asked, after);
  }
}

}  // namespace
}  // namespace verbena::link
