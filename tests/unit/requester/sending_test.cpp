// SPDX-License-Identifier: BSD-2-Clause
// The parts of a requester that decide what may be sent, each by itself: PSNs, window, turn, pace,
// ACK requests, waiting for a receive, credits.
#include <gtest/gtest.h>

#include "verbena/requester/ack_requests.hpp"
#include "verbena/requester/credits.hpp"
#include "verbena/requester/pacing.hpp"
#include "verbena/requester/rnr_wait.hpp"
#include "verbena/requester/send_psns.hpp"
#include "verbena/requester/turn.hpp"
#include "verbena/requester/window.hpp"

namespace verbena::requester {
namespace {

TEST(SendPsnsTest, GoForwardWithWhatIsSentAndAnswered) {
  SendPsns psns(Psn(0xFFFFFE));
  EXPECT_EQ(psns.give(4), Psn(0xFFFFFE));
  EXPECT_EQ(psns.next(), Psn(2)) << "24 bits";
  EXPECT_TRUE(psns.is_all_answered());
  psns.send(3);
  EXPECT_EQ(psns.in_flight(), 3u);
  EXPECT_EQ(psns.ahead(), 3u);
  psns.acknowledge(Psn(0));
  EXPECT_EQ(psns.in_flight(), 1u);
  psns.send(1);
  psns.acknowledge(Psn(2));
  EXPECT_TRUE(psns.is_all_answered());
  EXPECT_EQ(psns.first(), Psn(0xFFFFFE)) << "as long as the connection lasts";
}

TEST(SendPsnsTest, WhatGoesAgainIsNotInFlightTwice) {
  SendPsns psns(Psn(10));
  psns.give(5);
  psns.send(5);
  psns.move_cursor(psns.una());
  EXPECT_TRUE(psns.is_repeating());
  EXPECT_EQ(psns.ahead(), 0u);
  psns.send(4);
  EXPECT_TRUE(psns.is_repeating());
  EXPECT_EQ(psns.in_flight(), 5u);
  psns.send(1);
  EXPECT_FALSE(psns.is_repeating());
  EXPECT_EQ(psns.in_flight(), 5u);
}

TEST(SendPsnsTest, NothingIsAwaitedOfWhatIsDroppedOrSentUnreliably) {
  SendPsns psns(Psn(10));
  psns.give(5);
  psns.move_cursor(Psn(12));
  psns.await_none();
  EXPECT_EQ(psns.una(), Psn(12));
  EXPECT_TRUE(psns.is_all_answered());
  psns.skip_all();
  EXPECT_EQ(psns.cursor(), Psn(15));
  EXPECT_TRUE(psns.is_all_answered());
  EXPECT_TRUE(psns.is_consistent());
  psns.move_cursor(Psn(16));
  EXPECT_FALSE(psns.is_consistent()) << "nothing has that number yet";
}

class Nobody final : public TurnSink {
 public:
  void on_turn(void*) noexcept override {}
};

class WindowTest : public ::testing::Test {
 protected:
  WindowTest() { window_.set_capacity(30, 300); }
  std::uint32_t small() const { return window_.packets(1024, share_); }
  std::uint32_t full() const { return window_.packets(1025, share_); }

  Nobody nobody_;
  FlowShare share_{nobody_};
  Window window_;
};

TEST_F(WindowTest, IsWhatThePeerHolds) {
  EXPECT_EQ(small(), 300u);
  EXPECT_EQ(full(), 30u);
  EXPECT_EQ(window_.chunk(), 10u);
}

TEST_F(WindowTest, IsAPartOfThatAmongOthers) {
  FlowShare::Place one(nullptr), other(nullptr);
  ASSERT_TRUE(share_.enter(one, 1, 300));
  ASSERT_TRUE(share_.enter(other, 1, 300));
  EXPECT_EQ(small(), 150u);
  EXPECT_EQ(full(), 15u);
  share_.leave(one);
  share_.leave(other);
}

TEST_F(WindowTest, HalvesWithALossAndGrowsWithAnswers) {
  window_.shrink(100);
  EXPECT_EQ(small(), 50u);
  EXPECT_EQ(full(), 30u);
  window_.grow(20);
  EXPECT_EQ(small(), 61u);
  for (int i = 0; i < 1000; ++i) window_.grow(1);
  EXPECT_EQ(small(), 300u) << "and no further";
  window_.close();
  EXPECT_EQ(full(), 1u);
  window_.shrink(1);
  EXPECT_EQ(full(), 1u) << "never less";
}

TEST_F(WindowTest, IsNeverNothing) {
  window_.set_capacity(0, 0);
  EXPECT_EQ(small(), 1u);
  EXPECT_EQ(full(), 1u);
  EXPECT_EQ(window_.chunk(), 1u);
}

class TurnTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kCapacity = 16;  // room for one turn
  Nobody nobody_;
  std::shared_ptr<FlowShare> share_ = std::make_shared<FlowShare>(nobody_);
};

TEST_F(TurnTest, IsNeedlessForOneThatIsAlone) {
  Turn one(nullptr);
  one.share_with(std::move(share_));
  EXPECT_TRUE(one.is_needless());
}

TEST_F(TurnTest, IsTakenAndAwaitedAmongOthers) {
  Turn one(nullptr), other(nullptr);
  one.share_with(share_);
  other.share_with(share_);
  EXPECT_FALSE(one.is_needless());
  EXPECT_TRUE(one.take(1, kCapacity));
  EXPECT_TRUE(one.is_held());
  EXPECT_FALSE(other.take(1, kCapacity));
  EXPECT_TRUE(other.is_awaited());
  EXPECT_TRUE(other.is_awaited_with(1));
  EXPECT_FALSE(other.is_awaited_with(FlowShare::kPacketsAtMost));
  one.give_up();
  EXPECT_TRUE(other.is_held());
}

TEST_F(TurnTest, IsOverAfterSoManyPacketsIfOthersWait) {
  Turn one(nullptr), other(nullptr);
  one.share_with(share_);
  other.share_with(share_);
  one.take(1, kCapacity);
  one.sent(FlowShare::kPacketsPerTurn, true);
  EXPECT_FALSE(one.is_over()) << "nobody waits";
  other.take(1, kCapacity);
  one.sent(1, false);
  EXPECT_FALSE(one.is_over()) << "its answer would come late";
  one.sent(1, true);
  EXPECT_TRUE(one.is_over());
  one.give_up();
  EXPECT_FALSE(one.is_over());
}

TEST_F(TurnTest, IsGivenUpByWhoGoesOrSendsElsewhere) {
  Turn other(nullptr);
  other.share_with(share_);
  {
    Turn one(nullptr);
    one.share_with(share_);
    one.take(1, kCapacity);
    EXPECT_FALSE(other.take(1, kCapacity));
  }
  EXPECT_TRUE(other.is_held());
  other.share_with(std::make_shared<FlowShare>(nobody_));
  Turn next(nullptr);
  next.share_with(share_);
  EXPECT_TRUE(next.take(1, kCapacity));
}

class PacingTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kMtu = 1024;
  static constexpr TimeNs kEach = 300 + kMtu * 2 / 3;

  std::size_t send_all_that_may(std::uint32_t capacity = 64) {
    std::size_t sent = 0;
    for (; sent < 1000 && pacing_.may_send(capacity, kMtu, now_); ++sent) pacing_.sent(kMtu);
    return sent;
  }

  Pacing pacing_;
  TimeNs now_ = 1'000'000;
};

TEST_F(PacingTest, LetsAQuarterGoAtOnceAndThenOneAtATime) {
  EXPECT_EQ(send_all_that_may(), 17u);
  const TimeNs until = pacing_.waits_until();
  EXPECT_EQ(until, now_ + kEach);
  now_ = until;
  EXPECT_EQ(send_all_that_may(), 1u);
  now_ += 5 * kEach;
  EXPECT_EQ(send_all_that_may(), 5u);
  now_ += 1'000'000'000;
  EXPECT_EQ(send_all_that_may(), 17u) << "what was not used is not saved up";
}

TEST_F(PacingTest, CountsForNothingWhereThePathTells) {
  send_all_that_may();
  pacing_.take_notice(Pacing::Room::kSome, now_);
  EXPECT_TRUE(pacing_.may_send(64, kMtu, now_));
  EXPECT_EQ(pacing_.waits_until(), 0u);
  pacing_.take_notice(Pacing::Room::kNone, now_);
  EXPECT_FALSE(pacing_.may_send(64, kMtu, now_));
  EXPECT_EQ(pacing_.waits_until(), now_ + Pacing::kRoomInterval);
}

// While a ring may come, no more goes by UDP than a socket holds, however long that takes.
TEST_F(PacingTest, SendsLittleWhileARingMayCome) {
  for (int round = 0; round < 3; ++round) {
    pacing_.take_notice(Pacing::Room::kSoon, now_);
    EXPECT_EQ(send_all_that_may(), round == 0 ? 16u : 0u);
    EXPECT_EQ(pacing_.waits_until(), now_ + Pacing::kRingInterval);
    now_ += 100'000'000;
  }
  pacing_.take_notice(Pacing::Room::kSome, now_);
  EXPECT_TRUE(pacing_.may_send(64, kMtu, now_));
  pacing_.take_notice(Pacing::Room::kSoon, now_);
  EXPECT_EQ(send_all_that_may(), 16u);
}

TEST(AckRequestsTest, OneInAnInterval) {
  AckRequests requests;
  EXPECT_FALSE(requests.is_due(1, 3));
  requests.count(2, false);
  EXPECT_TRUE(requests.is_due(1, 3));
  requests.count(1, true);
  EXPECT_FALSE(requests.is_due(2, 3));
}

TEST(AckRequestsTest, TheLastPacketOfABatchRequestsOne) {
  AckRequests requests;
  requests.begin_batch();
  EXPECT_EQ(requests.take_last(), std::nullopt) << "an empty one has none";
  requests.added(0, false);
  requests.added(1, false);
  requests.count(2, false);
  EXPECT_EQ(requests.take_last(), 1);
  EXPECT_FALSE(requests.is_due(2, 3)) << "the interval begins with it";
  EXPECT_EQ(requests.take_last(), std::nullopt) << "once";
  EXPECT_FALSE(requests.take_missing());
  requests.added(2, false);
  requests.added(3, true);
  EXPECT_EQ(requests.take_last(), std::nullopt) << "it requests one already";
}

TEST(AckRequestsTest, IsMissingWhereNothingFollowsAFullBatch) {
  AckRequests requests;
  requests.begin_batch();
  requests.added(0, false);
  requests.begin_batch();
  EXPECT_EQ(requests.take_last(), std::nullopt) << "it went with the batch before";
  EXPECT_TRUE(requests.take_missing());
  EXPECT_FALSE(requests.take_missing()) << "once";
  requests.added(0, false);
  requests.begin_batch();
  requests.added(0, true);
  EXPECT_FALSE(requests.take_missing()) << "the next batch has requested one";
}

TEST(RnrWaitTest, CountsRetriesUntilThereIsProgress) {
  RnrWait wait;
  wait.set_count(2);
  wait.renew();
  EXPECT_TRUE(wait.may_retry());
  EXPECT_TRUE(wait.may_retry());
  EXPECT_FALSE(wait.may_retry());
  wait.renew();
  EXPECT_TRUE(wait.may_retry());
  wait.set_count(0);
  EXPECT_TRUE(wait.may_retry()) << "until the next renewal";
  wait.renew();
  EXPECT_FALSE(wait.may_retry());
}

TEST(RnrWaitTest, SevenRetriesNeverEnd) {
  RnrWait wait;
  wait.set_count(RnrWait::kForEver);
  wait.renew();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(wait.may_retry());
}

TEST(RnrWaitTest, WaitsUntilItsTime) {
  RnrWait wait;
  EXPECT_FALSE(wait.is_waiting());
  wait.wait(100);
  EXPECT_TRUE(wait.is_waiting());
  EXPECT_FALSE(wait.is_over(99));
  EXPECT_TRUE(wait.is_over(wait.until()));
  wait.end();
  EXPECT_FALSE(wait.is_waiting());
}

TEST(CreditsTest, AreUnlimitedUntilThePeerSaysSo) {
  Credits credits;
  for (std::uint32_t i = 1; i < 100; ++i) {
    EXPECT_TRUE(credits.allow_another());
    EXPECT_EQ(credits.next_message(), i);
  }
}

TEST(CreditsTest, AllowAsManyMessagesAsThePeerHasReceives) {
  Credits credits;
  constexpr std::uint8_t kTwo = 2;
  credits.update(wire::Aeth::ack(kTwo, 0));
  ASSERT_EQ(wire::decode_credits(kTwo), 2u);
  EXPECT_TRUE(credits.allow_another());
  credits.next_message();
  credits.next_message();
  EXPECT_FALSE(credits.allow_another());
  credits.update(wire::Aeth::ack(kTwo, 1));
  EXPECT_TRUE(credits.allow_another());
  credits.next_message();
  EXPECT_FALSE(credits.allow_another());
  credits.update(wire::Aeth::ack(wire::kCreditsUnlimited, 1));
  EXPECT_TRUE(credits.allow_another());
}

// The peer counts each request packet of a READ, and its numbers wrap at 24 bits.
TEST(CreditsTest, CountOurMessagesWhateverThePeerCounts) {
  Credits credits;
  constexpr std::uint8_t kTwo = 2;
  std::uint32_t theirs = 0;
  for (int read = 0; read < 100; ++read) {
    const std::uint32_t ours = credits.next_message();
    theirs = (theirs + 1'000'003) & 0xffffff;
    credits.align(wire::Aeth::ack(kTwo, theirs), ours);
    credits.update(wire::Aeth::ack(kTwo, theirs));
    ASSERT_TRUE(credits.allow_another()) << read;
  }
  credits.next_message();
  credits.next_message();
  EXPECT_FALSE(credits.allow_another());
}

}  // namespace
}  // namespace verbena::requester
