// SPDX-License-Identifier: BSD-2-Clause
// The parts of a requester that handle answers and silence, each by itself: timers, patience with a
// silent peer, repair, early answers.
#include <gtest/gtest.h>

#include "verbena/requester/answer_timer.hpp"
#include "verbena/requester/early_answers.hpp"
#include "verbena/requester/repair.hpp"
#include "verbena/requester/silent_peer.hpp"

namespace verbena::requester {
namespace {

class AnswerTimerTest : public ::testing::Test {
 protected:
  static constexpr std::uint8_t kTimeout = 14;  // 67 ms
  static constexpr TimeNs kRetry = TimeNs{4096} << kTimeout;

  AnswerTimerTest() {
    timer_.set_timeout(kTimeout);
    timer_.begin(now_);
  }
  // Exchanges a packet whose answer takes `takes`.
  void exchange(TimeNs takes) {
    timer_.ack_requested(psn_, now_);
    now_ += takes;
    timer_.heard(now_);
    timer_.progressed(psn_ = psn_ + 1, now_);
  }

  AnswerTimer timer_;
  Psn psn_{5};
  TimeNs now_ = 1'000'000'000;
};

TEST_F(AnswerTimerTest, ProbesEverMoreSeldom) {
  EXPECT_EQ(timer_.deadline(), now_ + AnswerTimer::kProbeIntervalMin);
  TimeNs interval = AnswerTimer::kProbeIntervalMin;
  for (int i = 0; i < 3; ++i, interval *= 2) {
    EXPECT_FALSE(timer_.is_probe_due(now_ + interval - 1));
    ASSERT_TRUE(timer_.is_probe_due(now_ += interval));
    timer_.probed(now_);
  }
  EXPECT_TRUE(timer_.is_probe_due(now_ + kRetry / AnswerTimer::kProbesPerRetry));
}

TEST_F(AnswerTimerTest, ProbesSoonWherePacketsWereLostLately) {
  timer_.lost();
  EXPECT_TRUE(timer_.is_wary());
  EXPECT_EQ(timer_.deadline(), now_ + AnswerTimer::kProbeIntervalWary);
  for (int i = 0; i < AnswerTimer::kWaryFor; ++i) exchange(1'000);
  EXPECT_FALSE(timer_.is_wary());
  EXPECT_EQ(timer_.deadline(), now_ + AnswerTimer::kProbeIntervalMin);
}

TEST_F(AnswerTimerTest, ARetryCountsAfterTheTimeoutOfSilence) {
  EXPECT_FALSE(timer_.is_silence_long(now_ + kRetry / 2 - 1));
  EXPECT_TRUE(timer_.is_silence_long(now_ + kRetry / 2));
  EXPECT_FALSE(timer_.is_retry_due(now_ + kRetry - 1));
  EXPECT_TRUE(timer_.is_retry_due(now_ + kRetry));
  timer_.heard(now_ + kRetry / 2);
  EXPECT_FALSE(timer_.is_retry_due(now_ + kRetry)) << "it has said something";
  timer_.excuse(now_ + kRetry);
  EXPECT_FALSE(timer_.is_retry_due(now_ + 2 * kRetry - 1));
}

TEST_F(AnswerTimerTest, ARetryTakesNoLessThanASleepingPeerMay) {
  timer_.set_timeout(1);
  EXPECT_FALSE(timer_.is_retry_due(now_ + AnswerTimer::kRetryIntervalMin - 1));
  EXPECT_TRUE(timer_.is_retry_due(now_ + AnswerTimer::kRetryIntervalMin));
}

TEST_F(AnswerTimerTest, WithoutATimeoutNoneCounts) {
  timer_.set_timeout(0);
  EXPECT_FALSE(timer_.is_retry_due(kNever - 1));
  EXPECT_TRUE(timer_.waits_for_ever());
  EXPECT_FALSE(timer_.is_silence_long(now_));
  EXPECT_TRUE(timer_.is_silence_long(now_ + AnswerTimer::kLongSilence));
  EXPECT_TRUE(timer_.is_probe_due(now_ + AnswerTimer::kProbeIntervalMin));
}

TEST_F(AnswerTimerTest, WaitsLongerWhereAnswersTakeLong) {
  for (int i = 0; i < 50; ++i) exchange(30'000'000);
  EXPECT_FALSE(timer_.is_probe_due(now_ + 20'000'000));
  EXPECT_GT(timer_.retry_interval(), kRetry);
  for (int i = 0; i < 50; ++i) exchange(3'000'000'000);
  EXPECT_EQ(timer_.retry_interval(), 4 * kRetry) << "but not for ever";
  EXPECT_GT(timer_.repetition_takes(), 1'000'000'000u);
}

TEST_F(AnswerTimerTest, KeepsItsTimeoutForANewConnection) {
  for (int i = 0; i < 50; ++i) exchange(3'000'000'000);
  timer_.reset();
  EXPECT_EQ(timer_.retry_interval(), kRetry);
  EXPECT_EQ(timer_.last_heard(), 0u);
}

class SilentPeerTest : public ::testing::Test {
 protected:
  using Verdict = SilentPeer::Verdict;
  using Standing = PeerReport::Standing;
  using Reading = wire::Path::Reading;

  Verdict judge(std::optional<Reading> reading = std::nullopt) {
    return peer_.judge(report_, reading, now_);
  }

  SilentPeer peer_;
  PeerReport report_;
  TimeNs now_ = 1'000'000'000;
};

TEST_F(SilentPeerTest, CountsWhereNothingIsKnown) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(judge(), Verdict::kRetryCounts);
    EXPECT_EQ(peer_.counted_at(), now_);
    now_ += 20'000'000;
  }
}

TEST_F(SilentPeerTest, IsExcusedWhileItIsStopped) {
  report_.standing = Standing::kStopped;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(judge(), Verdict::kStopped);
    now_ += 10 * SilentPeer::kReaderPatience;
  }
}

TEST_F(SilentPeerTest, IsToldToBeStoppedOnceSinceItWasHeardOf) {
  EXPECT_TRUE(peer_.must_tell(0, now_));
  EXPECT_FALSE(peer_.must_tell(0, now_ + 1));
  EXPECT_FALSE(peer_.must_tell(now_ - 1, now_ + 1));
  EXPECT_TRUE(peer_.must_tell(now_ + 5, now_ + 6));
}

TEST_F(SilentPeerTest, IsExcusedUntilTheReportIsOverdue) {
  report_.standing = Standing::kAsked;
  EXPECT_EQ(judge(), Verdict::kExcused);
  now_ += SilentPeer::kReportPatience - 1;
  EXPECT_EQ(judge(), Verdict::kExcused);
  now_ += 1;
  EXPECT_EQ(judge(), Verdict::kRetryCounts);
  EXPECT_EQ(judge(), Verdict::kExcused) << "the next one is awaited anew";
}

TEST_F(SilentPeerTest, IsExcusedWhileItReadsNothingOfWhatLay) {
  EXPECT_EQ(judge(Reading{100, 40}), Verdict::kRetryCounts) << "nothing lay there before";
  now_ += 20'000'000;
  EXPECT_EQ(judge(Reading{150, 99}), Verdict::kExcused);
  now_ += 20'000'000;
  EXPECT_EQ(judge(Reading{150, 100}), Verdict::kRetryCounts) << "it has read, and not answered";
  now_ += SilentPeer::kReaderPatience;
  EXPECT_EQ(judge(Reading{150, 100}), Verdict::kRetryCounts) << "for five seconds at most";
  EXPECT_LT(peer_.counted_at(), now_);
}

TEST_F(SilentPeerTest, IsExcusedWhileTheEmulatorSeesUnreadPackets) {
  report_.has_unread = true;
  EXPECT_EQ(judge(), Verdict::kRetryCounts) << "they may have come just now";
  now_ += 20'000'000;
  EXPECT_EQ(judge(), Verdict::kExcused);
  now_ += SilentPeer::kReaderPatience;
  EXPECT_EQ(judge(), Verdict::kRetryCounts);
}

TEST_F(SilentPeerTest, ANewPathBeginsAnew) {
  EXPECT_EQ(judge(Reading{100, 40}), Verdict::kRetryCounts);
  now_ += 20'000'000;
  EXPECT_EQ(judge(Reading{10, 5}), Verdict::kRetryCounts) << "a ring in place of the one before";
}

class RepairTest : public ::testing::Test {
 protected:
  static constexpr TimeNs kTakes = 50'000;

  // Repeats the packet at `una`, with one packet behind it. False: everything must be repeated.
  bool repairs(std::uint32_t una) {
    if (repair_.needs_all(Psn(una))) return false;
    repair_.want_repair(now_, 20);
    repair_.sent(Psn(una), Psn(una + 1));
    return true;
  }
  std::uint32_t progress_after(TimeNs time) { return repair_.progressed(now_ + time, kTakes); }

  Repair repair_;
  TimeNs now_ = 1'000'000;
};

TEST_F(RepairTest, ASinglePacketGoesOnce) {
  EXPECT_FALSE(repair_.was_repeated(Psn(7)));
  ASSERT_TRUE(repairs(7));
  EXPECT_TRUE(repair_.was_repeated(Psn(7)));
  EXPECT_FALSE(repair_.was_repeated(Psn(8)));
  EXPECT_FALSE(repair_.is_wanted());
}

TEST_F(RepairTest, WhatIsMissingInARowGoesAsAWhole) {
  EXPECT_TRUE(repairs(7));
  EXPECT_TRUE(repairs(8));
  EXPECT_FALSE(repairs(9));
  repair_.go_back_to(Psn(9));
  EXPECT_TRUE(repair_.went_back_to(Psn(9)));
  EXPECT_FALSE(repairs(20)) << "from then on the peer keeps nothing";
  repair_.note_kept();
  EXPECT_TRUE(repairs(30)) << "it does";
}

TEST_F(RepairTest, GapsApartAreNoRow) {
  for (std::uint32_t una = 1; una < 100; una += 10) EXPECT_TRUE(repairs(una));
}

TEST_F(RepairTest, WhatWasOnlyOvertakenWasNotLost) {
  repairs(7);
  EXPECT_EQ(progress_after(kTakes - 1), 0u);
  EXPECT_EQ(progress_after(kTakes), 0u) << "told once";
  repairs(9);
  EXPECT_EQ(progress_after(kTakes), 20u);
}

TEST_F(RepairTest, GoesBackOncePerPlaceUntilThereIsProgress) {
  repair_.go_back_to(Psn(5));
  EXPECT_TRUE(repair_.was_repeated(Psn(5)));
  progress_after(0);
  EXPECT_FALSE(repair_.went_back_to(Psn(5)));
  repair_.go_back_to(Psn(5));
  repair_.allow_going_back();
  EXPECT_FALSE(repair_.went_back_to(Psn(5)));
}

TEST_F(RepairTest, AnAnswerToAProbeSaysThatTheRestIsLostUnlessItGoesOn) {
  repair_.want_probe(now_, 20);
  EXPECT_TRUE(repair_.is_wanted());
  repair_.sent(Psn(7), Psn(8));
  EXPECT_TRUE(repair_.may_rest_be_lost(Psn(8), false));
  EXPECT_FALSE(repair_.may_rest_be_lost(Psn(9), true));
  EXPECT_TRUE(repair_.close_probe());
  EXPECT_FALSE(repair_.close_probe());
  repairs(20);
  EXPECT_FALSE(repair_.close_probe()) << "a repair is no probe";
}

TEST_F(RepairTest, FourReportsOfAGapAreARetry) {
  for (int i = 0; i < 3; ++i) {
    for (int report = 1; report < Repair::kReportsPerRetry; ++report) {
      EXPECT_FALSE(repair_.note_gap());
    }
    EXPECT_TRUE(repair_.note_gap());
  }
  repair_.note_gap();
  progress_after(0);
  for (int report = 1; report < Repair::kReportsPerRetry; ++report) {
    EXPECT_FALSE(repair_.note_gap());
  }
}

TEST_F(RepairTest, ForgetsWhatIsNotAwaited) {
  repair_.want_probe(now_, 20);
  repair_.forget();
  EXPECT_FALSE(repair_.is_wanted());
  repairs(7);
  repair_.forget();
  EXPECT_FALSE(repair_.was_repeated(Psn(7)));
  EXPECT_EQ(progress_after(kTakes), 0u);
}

TEST(EarlyAnswersTest, KeepTheFurthestAcknowledgement) {
  EarlyAnswers early;
  EXPECT_TRUE(early.is_empty());
  early.note_ack(Psn(7));
  early.note_ack(Psn(9));
  early.note_ack(Psn(8));
  EXPECT_EQ(early.ack(), Psn(9));
  EXPECT_FALSE(early.is_empty());
  early.forget_ack();
  EXPECT_TRUE(early.is_empty());
  early.note_ack(Psn(7));
  early.clear();
  EXPECT_EQ(early.ack(), std::nullopt);
}

}  // namespace
}  // namespace verbena::requester
