// SPDX-License-Identifier: BSD-2-Clause
// When a thread that polls in vain gives its processor away.
#include "politeness.hpp"

#include <gtest/gtest.h>

#include <initializer_list>

namespace verbena::provider {
namespace {

constexpr TimeNs kSoon = 1;
constexpr TimeNs kLate = Politeness::kAfter + 1;
constexpr Turn kOfPeer{true, 2 * Politeness::kAfter - 1};
constexpr Turn kOfSomebodyElse{true, 2 * Politeness::kAfter};
constexpr Turn kOfNobody{false, 200};
constexpr Turn kOfNobodyWhereAllIsSlow{false, 5000};

class PolitenessTest : public ::testing::Test {
 protected:
  void waits_with(std::initializer_list<Turn> turns) {
    for (const Turn& turn : turns) politeness_.note(turn);
    politeness_.found();
  }
  int peers_until_soon() {
    for (int count = 0; count < 100'000; ++count) {
      if (politeness_.is_due(kSoon)) return count;
      waits_with({kOfPeer});
    }
    return -1;
  }

  Politeness politeness_;
};

TEST_F(PolitenessTest, BeginsAfterARoundTrip) {
  EXPECT_FALSE(politeness_.is_due(Politeness::kAfter));
  EXPECT_TRUE(politeness_.is_due(kLate));
}

TEST_F(PolitenessTest, BeginsLaterWhereATurnOfNobodyIsLong) {
  constexpr TimeNs kAfter = Politeness::kTurnsOfNobody * kOfNobodyWhereAllIsSlow.lasted;
  waits_with({kOfNobodyWhereAllIsSlow, {false, 900'000}});
  EXPECT_FALSE(politeness_.is_due(kAfter));
  EXPECT_TRUE(politeness_.is_due(kAfter + kAfter / 32)) << "one that was interrupted says little";
  // So is a peer's.
  for (int i = 0; i < 2; ++i) waits_with({{true, kAfter}});
  EXPECT_TRUE(politeness_.is_due(kSoon));
}

TEST_F(PolitenessTest, HasNoLongTurnOfNobodyForEver) {
  waits_with({{false, 1'000'000'000}});
  EXPECT_FALSE(politeness_.is_due(Politeness::kAfterMost));
  EXPECT_TRUE(politeness_.is_due(Politeness::kAfterMost + 1));
  waits_with({kOfNobody});
  EXPECT_TRUE(politeness_.is_due(kLate));
}

TEST_F(PolitenessTest, BeginsAtOnceWherePeersTakeTheTurn) {
  EXPECT_EQ(peers_until_soon(), 2);
  for (int i = 0; i < 10; ++i) {
    waits_with({kOfPeer});
    EXPECT_TRUE(politeness_.is_due(kSoon));
  }
}

// Some schedulers give every other turn straight back.
TEST_F(PolitenessTest, OneTurnOfAWaitIsEnough) {
  for (int i = 0; i < 2; ++i) waits_with({kOfNobody, kOfPeer, kOfNobody});
  EXPECT_TRUE(politeness_.is_due(kSoon));
}

TEST_F(PolitenessTest, WhatComesWithoutATurnTeachesNothing) {
  peers_until_soon();
  for (int i = 0; i < 10; ++i) waits_with({});
  EXPECT_TRUE(politeness_.is_due(kSoon));
}

TEST_F(PolitenessTest, EndsWhereNobodyTakesTheTurn) {
  peers_until_soon();
  waits_with({kOfNobody, kOfNobody});
  EXPECT_FALSE(politeness_.is_due(kSoon));
  EXPECT_EQ(peers_until_soon(), 1) << "which was no loss";
}

// What is found by chance is no reason to begin anew.
TEST_F(PolitenessTest, BeginsWherePeersTakeTheTurnMoreOftenThanNot) {
  peers_until_soon();
  waits_with({kOfSomebodyElse});
  int count = 0;
  for (; !politeness_.is_due(kSoon) && count < 1000; ++count) {
    waits_with({kOfPeer});
    waits_with({kOfPeer});
    waits_with({kOfNobody});
  }
  EXPECT_LE(count, 32);
}

TEST_F(PolitenessTest, EndsWhereSomebodyElseTakesTheTurnAndIsDearerThen) {
  peers_until_soon();
  int before = 0;
  for (int i = 0; i < 3; ++i) {
    waits_with({kOfPeer, kOfSomebodyElse, kOfPeer});
    EXPECT_FALSE(politeness_.is_due(kSoon));
    const int count = peers_until_soon();
    EXPECT_GT(count, before);
    before = count;
  }
}

TEST_F(PolitenessTest, NeverBeginsWhereSomebodyElseTakesEachTurn) {
  for (int i = 0; i < 100; ++i) {
    waits_with({kOfSomebodyElse});
    ASSERT_FALSE(politeness_.is_due(kSoon));
  }
}

}  // namespace
}  // namespace verbena::provider
