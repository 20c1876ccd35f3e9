// SPDX-License-Identifier: BSD-2-Clause
// When a thread that waits for an event spins, and when it has learnt to sleep at once.
#include "verbena/progress/reader_spin.hpp"

#include <gtest/gtest.h>

namespace verbena::provider::reader_spin {
namespace {

constexpr TimeNs kSoon = ReaderSpin::kSpan / 2;
constexpr TimeNs kLate = ReaderSpin::kSpanOfSleeper + 1;
// The time after both turns of a wait, if another thread has used them.
constexpr TimeNs kUsed = ReaderSpin::kTurns * ReaderSpin::kTurnOfNobody;

class ReaderSpinTest : public ::testing::Test {
 protected:
  // Waits for an event that comes after `until`. Returns whether the thread spun for it.
  bool waits(TimeNs until) {
    now_ += 1'000'000;
    reader_spin_.begin(now_);
    const bool looked = reader_spin_.is_on();
    while (passed_ < until && reader_spin_.goes_on(now_ + passed_)) passed_ += 1'000;
    reader_spin_.end([&] { return now_ + until; });
    passed_ = 0;
    return looked;
  }
  int waits_until_it_looks(TimeNs until) {
    for (int count = 0;; ++count) {
      if (waits(until)) return count;
    }
  }

  bool goes_on_after_turn(TimeNs passed) {
    reader_spin_.note_turn();
    return reader_spin_.goes_on_after_turn([&] { return now_ + passed; });
  }

  ReaderSpin reader_spin_;
  TimeNs now_ = 0;
  TimeNs passed_ = 0;
};

TEST_F(ReaderSpinTest, LooksWhereEventsComeSoon) {
  EXPECT_EQ(waits_until_it_looks(kSoon), 2);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(waits(kSoon));
}

TEST_F(ReaderSpinTest, SleepsWhereTheyComeLate) {
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(waits(kLate));
}

TEST_F(ReaderSpinTest, LooksMoreSeldomAfterGivingUp) {
  waits_until_it_looks(kSoon);
  reader_spin_.begin(now_);
  ASSERT_TRUE(reader_spin_.is_on());
  EXPECT_FALSE(reader_spin_.goes_on(now_ + ReaderSpin::kSpan));
  EXPECT_FALSE(reader_spin_.is_on());
  reader_spin_.end([&] { return now_ + kSoon; });
  EXPECT_EQ(waits_until_it_looks(kSoon), 4);
}

TEST_F(ReaderSpinTest, ASleeperThatWasWokenSoonCouldHaveLooked) {
  EXPECT_EQ(waits_until_it_looks(ReaderSpin::kSpanOfSleeper - 1), 2);
}

TEST_F(ReaderSpinTest, LooksNoLongerThanItsSpan) {
  waits_until_it_looks(kSoon);
  reader_spin_.begin(now_);
  EXPECT_TRUE(reader_spin_.goes_on(now_ + ReaderSpin::kSpan - 1));
  EXPECT_FALSE(reader_spin_.goes_on(now_ + ReaderSpin::kSpan));
  EXPECT_FALSE(reader_spin_.is_on());
  EXPECT_FALSE(reader_spin_.goes_on(now_)) << "once over, it is over";
}

// The first turn that is given away may come back before the peer has looked.
TEST_F(ReaderSpinTest, GivesTwoTurnsAwayWhereItHasFoundSomethingBefore) {
  waits_until_it_looks(kSoon);
  for (int i = 0; i < 2; ++i) {
    reader_spin_.begin(now_);
    EXPECT_TRUE(goes_on_after_turn(kUsed)) << "each wait has two";
    reader_spin_.end([&] { return now_ + kSoon; });
  }
  reader_spin_.begin(now_);
  EXPECT_TRUE(goes_on_after_turn(kUsed));
  EXPECT_FALSE(goes_on_after_turn(kUsed));
  EXPECT_FALSE(reader_spin_.is_on());
  EXPECT_FALSE(goes_on_after_turn(kUsed)) << "once over, it is over";
  reader_spin_.end([&] { return now_ + kSoon; });
  EXPECT_EQ(waits_until_it_looks(kSoon), 4) << "that was in vain, too";
}

// The peer then runs on another processor.
TEST_F(ReaderSpinTest, LooksOnWhereNobodyTakesItsTurns) {
  waits_until_it_looks(kSoon);
  reader_spin_.begin(now_);
  reader_spin_.end([&] { return now_ + kSoon; });
  reader_spin_.begin(now_);
  const TimeNs turn = ReaderSpin::kTurnOfNobody - 1;
  TimeNs passed = turn;
  for (; passed < ReaderSpin::kSpan; passed += turn)
    ASSERT_TRUE(goes_on_after_turn(passed)) << passed;
  EXPECT_FALSE(goes_on_after_turn(passed)) << "no longer than where there are more processors";
  EXPECT_FALSE(reader_spin_.is_on());
}

TEST_F(ReaderSpinTest, ALongTurnAmongShortOnesIsSomebodys) {
  waits_until_it_looks(kSoon);
  reader_spin_.begin(now_);
  reader_spin_.end([&] { return now_ + kSoon; });
  reader_spin_.begin(now_);
  for (TimeNs passed = 100; passed < 1'000; passed += 100) ASSERT_TRUE(goes_on_after_turn(passed));
  EXPECT_FALSE(goes_on_after_turn(ReaderSpin::kSpan - 1));
}

TEST_F(ReaderSpinTest, ATurnThatTookLongWasInVainWhateverIsThereAfterIt) {
  waits_until_it_looks(kSoon);
  reader_spin_.begin(now_);
  ASSERT_TRUE(reader_spin_.is_on());
  reader_spin_.note_turn();
  reader_spin_.end([&] { return now_ + kLate; });
  EXPECT_EQ(waits_until_it_looks(kSoon), 32) << "dearer by far than what is gained by a look";
}

TEST_F(ReaderSpinTest, TurnsThatTookLongAndBroughtNothingAreAsDear) {
  waits_until_it_looks(kSoon);
  reader_spin_.begin(now_);
  reader_spin_.end([&] { return now_ + kSoon; });
  reader_spin_.begin(now_);
  EXPECT_TRUE(goes_on_after_turn(kLate));
  EXPECT_FALSE(goes_on_after_turn(kLate));
  reader_spin_.end([&] { return now_ + kLate; });
  EXPECT_GE(waits_until_it_looks(kSoon), 32);
}

TEST_F(ReaderSpinTest, TheFirstTurnsMayComeBackForAWhile) {
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(waits(kSoon));
  reader_spin_.begin(now_);
  ASSERT_TRUE(reader_spin_.is_on());
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(goes_on_after_turn(ReaderSpin::kSpanOfFirstTurns - 1));
  EXPECT_FALSE(goes_on_after_turn(ReaderSpin::kSpanOfFirstTurns));
  EXPECT_FALSE(reader_spin_.is_on());
}

TEST_F(ReaderSpinTest, EachLookInVainMakesTheNextDearer) {
  waits_until_it_looks(kSoon);
  int before = 0;
  for (int i = 0; i < 5; ++i) {
    // An event that is just in time for a sleeper comes too late for a thread that spins.
    const int count = waits_until_it_looks(ReaderSpin::kSpanOfSleeper - 1);
    EXPECT_GE(count, before);
    before = count;
  }
  EXPECT_GE(before, 32);
}

}  // namespace
}  // namespace verbena::provider::reader_spin
