// SPDX-License-Identifier: BSD-2-Clause
// When UDP is read beside rings, told by how long a UDP packet waits, not by the constants.
#include "verbena/link/udp_rounds.hpp"

#include <gtest/gtest.h>

namespace verbena::link {
namespace {

// Returns how many rounds of one kind pass until UDP is read; 0: too many.
int rounds_until_due(UdpRounds& rounds, bool has_found) {
  for (int n = 1; n <= 10'000; ++n) {
    if (rounds.is_due(has_found)) return n;
  }
  return 0;
}

TEST(UdpRoundsTest, AtFirstEachEmptyRoundLooks) {
  UdpRounds rounds;
  EXPECT_EQ(rounds_until_due(rounds, false), 1);
}

TEST(UdpRoundsTest, WhereUdpHasPacketsEachEmptyRoundLooks) {
  UdpRounds rounds;
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(rounds_until_due(rounds, false), 1);
    rounds.looked(true);
  }
}

TEST(UdpRoundsTest, AQuietUdpIsLookedAtLessAndLessButAlwaysAgain) {
  UdpRounds rounds;
  int before = 0;
  int now = 0;
  for (int i = 0; i < 100; ++i) {
    before = now;
    now = rounds_until_due(rounds, false);
    ASSERT_GE(now, before);
    ASSERT_GT(now, 0);
    rounds.looked(false);
  }
  EXPECT_EQ(now, before) << "there is a longest wait";
  EXPECT_GT(now, 8) << "a quiet UDP costs little";
  EXPECT_LT(now, 1000) << "and is not forgotten";
}

TEST(UdpRoundsTest, OnePacketEndsTheLongWaits) {
  UdpRounds rounds;
  for (int i = 0; i < 20; ++i) {
    rounds_until_due(rounds, false);
    rounds.looked(false);
  }
  rounds_until_due(rounds, false);
  rounds.looked(true);
  EXPECT_EQ(rounds_until_due(rounds, false), 1);
}

TEST(UdpRoundsTest, WhoAsksIsServedInTheNextEmptyRound) {
  UdpRounds rounds;
  for (int i = 0; i < 20; ++i) {
    rounds_until_due(rounds, false);
    rounds.looked(false);
  }
  rounds.look_soon();
  EXPECT_EQ(rounds_until_due(rounds, false), 1);
}

TEST(UdpRoundsTest, BusyRingsDoNotStarveUdp) {
  UdpRounds rounds;
  const int busy = rounds_until_due(rounds, true);
  EXPECT_GT(busy, 1) << "who has found something answers first";
  EXPECT_LT(busy, 1000);
}

TEST(UdpRoundsTest, AmongBusyRoundsAnEmptyOneIsTakenEarlier) {
  UdpRounds all_busy;
  for (int i = 0; i < 20; ++i) {
    rounds_until_due(all_busy, false);
    all_busy.looked(false);
  }
  UdpRounds mixed = all_busy;
  const int busy = rounds_until_due(all_busy, true);
  for (int n = 1; n < busy; ++n) {
    if (mixed.is_due(true)) FAIL() << "as all of them were busy";
    UdpRounds with_an_empty_one = mixed;
    if (with_an_empty_one.is_due(false)) return;
  }
  FAIL() << "an empty round was never taken";
}

}  // namespace
}  // namespace verbena::link
