// SPDX-License-Identifier: BSD-2-Clause
// When a thread that waits for an event looks for it, and when it has learnt to sleep at once.
#include "vigil.hpp"

#include <gtest/gtest.h>

namespace verbena::provider {
namespace {

constexpr TimeNs kSoon = Vigil::kSpan / 2;
constexpr TimeNs kLate = Vigil::kSpanOfSleeper + 1;
// After both turns of a wait, of which somebody has made use.
constexpr TimeNs kUsed = Vigil::kTurns * Vigil::kTurnOfNobody;

class VigilTest : public ::testing::Test {
 protected:
  // Waits for an event that comes after so long; whether the thread looked for it.
  bool waits(TimeNs until) {
    now_ += 1'000'000;
    vigil_.begin(now_);
    const bool looked = vigil_.is_on();
    while (passed_ < until && vigil_.goes_on(now_ + passed_)) passed_ += 1'000;
    vigil_.end([&] { return now_ + until; });
    passed_ = 0;
    return looked;
  }
  int waits_until_it_looks(TimeNs until) {
    for (int count = 0;; ++count) {
      if (waits(until)) return count;
    }
  }

  bool goes_on_after_turn(TimeNs passed) {
    vigil_.note_turn();
    return vigil_.goes_on_after_turn([&] { return now_ + passed; });
  }

  Vigil vigil_;
  TimeNs now_ = 0;
  TimeNs passed_ = 0;
};

TEST_F(VigilTest, LooksWhereEventsComeSoon) {
  EXPECT_EQ(waits_until_it_looks(kSoon), 2);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(waits(kSoon));
}

TEST_F(VigilTest, SleepsWhereTheyComeLate) {
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(waits(kLate));
}

TEST_F(VigilTest, LooksMoreSeldomAfterGivingUp) {
  waits_until_it_looks(kSoon);
  vigil_.begin(now_);
  ASSERT_TRUE(vigil_.is_on());
  EXPECT_FALSE(vigil_.goes_on(now_ + Vigil::kSpan));
  EXPECT_FALSE(vigil_.is_on());
  vigil_.end([&] { return now_ + kSoon; });
  EXPECT_EQ(waits_until_it_looks(kSoon), 4);
}

TEST_F(VigilTest, ASleeperThatWasWokenSoonCouldHaveLooked) {
  EXPECT_EQ(waits_until_it_looks(Vigil::kSpanOfSleeper - 1), 2);
}

TEST_F(VigilTest, LooksNoLongerThanItsSpan) {
  waits_until_it_looks(kSoon);
  vigil_.begin(now_);
  EXPECT_TRUE(vigil_.goes_on(now_ + Vigil::kSpan - 1));
  EXPECT_FALSE(vigil_.goes_on(now_ + Vigil::kSpan));
  EXPECT_FALSE(vigil_.is_on());
  EXPECT_FALSE(vigil_.goes_on(now_)) << "once over, it is over";
}

// The first turn that is given away may come back before the peer has looked.
TEST_F(VigilTest, GivesTwoTurnsAwayWhereItHasFoundSomethingBefore) {
  waits_until_it_looks(kSoon);
  for (int i = 0; i < 2; ++i) {
    vigil_.begin(now_);
    EXPECT_TRUE(goes_on_after_turn(kUsed)) << "each wait has two";
    vigil_.end([&] { return now_ + kSoon; });
  }
  vigil_.begin(now_);
  EXPECT_TRUE(goes_on_after_turn(kUsed));
  EXPECT_FALSE(goes_on_after_turn(kUsed));
  EXPECT_FALSE(vigil_.is_on());
  EXPECT_FALSE(goes_on_after_turn(kUsed)) << "once over, it is over";
  vigil_.end([&] { return now_ + kSoon; });
  EXPECT_EQ(waits_until_it_looks(kSoon), 4) << "that was in vain, too";
}

// The peer runs on another processor, then.
TEST_F(VigilTest, LooksOnWhereNobodyTakesItsTurns) {
  waits_until_it_looks(kSoon);
  vigil_.begin(now_);
  vigil_.end([&] { return now_ + kSoon; });
  vigil_.begin(now_);
  const TimeNs turn = Vigil::kTurnOfNobody - 1;
  TimeNs passed = turn;
  for (; passed < Vigil::kSpan; passed += turn) ASSERT_TRUE(goes_on_after_turn(passed)) << passed;
  EXPECT_FALSE(goes_on_after_turn(passed)) << "no longer than where there are more processors";
  EXPECT_FALSE(vigil_.is_on());
}

TEST_F(VigilTest, ALongTurnAmongShortOnesIsSomebodys) {
  waits_until_it_looks(kSoon);
  vigil_.begin(now_);
  vigil_.end([&] { return now_ + kSoon; });
  vigil_.begin(now_);
  for (TimeNs passed = 100; passed < 1'000; passed += 100) ASSERT_TRUE(goes_on_after_turn(passed));
  EXPECT_FALSE(goes_on_after_turn(Vigil::kSpan - 1));
}

TEST_F(VigilTest, ATurnThatTookLongWasInVainWhateverIsThereAfterIt) {
  waits_until_it_looks(kSoon);
  vigil_.begin(now_);
  ASSERT_TRUE(vigil_.is_on());
  vigil_.note_turn();
  vigil_.end([&] { return now_ + kLate; });
  EXPECT_EQ(waits_until_it_looks(kSoon), 32) << "dearer by far than what is gained by a look";
}

TEST_F(VigilTest, TurnsThatTookLongAndBroughtNothingAreAsDear) {
  waits_until_it_looks(kSoon);
  vigil_.begin(now_);
  vigil_.end([&] { return now_ + kSoon; });
  vigil_.begin(now_);
  EXPECT_TRUE(goes_on_after_turn(kLate));
  EXPECT_FALSE(goes_on_after_turn(kLate));
  vigil_.end([&] { return now_ + kLate; });
  EXPECT_GE(waits_until_it_looks(kSoon), 32);
}

TEST_F(VigilTest, TheFirstTurnsMayComeBackForAWhile) {
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(waits(kSoon));
  vigil_.begin(now_);
  ASSERT_TRUE(vigil_.is_on());
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(goes_on_after_turn(Vigil::kSpanOfFirstTurns - 1));
  EXPECT_FALSE(goes_on_after_turn(Vigil::kSpanOfFirstTurns));
  EXPECT_FALSE(vigil_.is_on());
}

TEST_F(VigilTest, EachLookInVainMakesTheNextDearer) {
  waits_until_it_looks(kSoon);
  int before = 0;
  for (int i = 0; i < 5; ++i) {
    // What comes only just in time to a sleeper comes too late for one that looks.
    const int count = waits_until_it_looks(Vigil::kSpanOfSleeper - 1);
    EXPECT_GE(count, before);
    before = count;
  }
  EXPECT_GE(before, 32);
}

}  // namespace
}  // namespace verbena::provider
