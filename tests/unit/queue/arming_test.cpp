// SPDX-License-Identifier: BSD-2-Clause
// When a completion queue sends an event to its reader.
#include "completion_queue_fixture.hpp"

namespace verbena::queue {
namespace {

using testing::completion;
using testing::CompletionQueueTest;

TEST_F(CompletionQueueTest, AnUnarmedQueueIsSilent) {
  CompletionQueue cq = make(8);
  cq.push(completion(1), true);
  EXPECT_EQ(sink_.completion_events, 0);
}

TEST_F(CompletionQueueTest, ArmingYieldsOneEventForTheNextCompletion) {
  CompletionQueue cq = make(8);
  EXPECT_EQ(cq.arm(false), Arming::kWaits);
  cq.push(completion(2), false);
  EXPECT_EQ(sink_.completion_events, 1);
  EXPECT_EQ(sink_.last_cookie, &cookie_);
  cq.push(completion(3), true);
  EXPECT_EQ(sink_.completion_events, 1);
  drain(cq);
  EXPECT_EQ(cq.arm(false), Arming::kWaits);
  EXPECT_EQ(cq.arm(false), Arming::kWaitedBefore);
  cq.push(completion(4), false);
  cq.push(completion(5), false);
  EXPECT_EQ(sink_.completion_events, 2) << "arming twice is arming once";
}

// As on adapters, a reader that arms and then sleeps misses no earlier completion.
TEST_F(CompletionQueueTest, ArmingTellsAtOnceOfWhatWasNotPolled) {
  CompletionQueue cq = make(8);
  cq.push(completion(1), false);
  EXPECT_EQ(cq.arm(false), Arming::kFired);
  EXPECT_EQ(sink_.completion_events, 1);
  EXPECT_EQ(sink_.last_cookie, &cookie_);
  cq.push(completion(2), false);
  EXPECT_EQ(sink_.completion_events, 1) << "the wish is fulfilled";
  EXPECT_EQ(cq.arm(false), Arming::kFired) << "of the second";
  EXPECT_EQ(sink_.completion_events, 2);
  drain(cq);
  EXPECT_EQ(cq.arm(false), Arming::kWaits);
  EXPECT_EQ(sink_.completion_events, 2);
}

// A reader that arms when an event comes, and polls then (perftest -e), has one event per
// completion.
TEST_F(CompletionQueueTest, ArmingTellsNothingTwice) {
  CompletionQueue cq = make(8);
  cq.arm(false);
  for (std::uint64_t i = 0; i < 10; ++i) {
    cq.push(completion(i), false);
    EXPECT_EQ(sink_.completion_events, static_cast<int>(i) + 1);
    EXPECT_EQ(cq.arm(false), Arming::kWaits);
    Completion c;
    ASSERT_TRUE(cq.poll_one(c));
  }
  // A reader that arms again without a poll in between gets another event.
  cq.push(completion(10), false);
  EXPECT_EQ(cq.arm(false), Arming::kWaits);
  EXPECT_EQ(sink_.completion_events, 11);
  EXPECT_EQ(cq.arm(false), Arming::kWaitedBefore);
  EXPECT_EQ(sink_.completion_events, 12);
}

// A reader that polls one completion for each event gets them all.
TEST_F(CompletionQueueTest, ArmingBeforeEachPollLosesNone) {
  CompletionQueue cq = make(64);
  cq.arm(false);
  for (std::uint64_t i = 0; i < 20; ++i) cq.push(completion(i), false);
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_GT(sink_.completion_events, static_cast<int>(i)) << "it would sleep for ever";
    cq.arm(false);
    Completion c;
    ASSERT_TRUE(cq.poll_one(c));
    ASSERT_EQ(c.id, i);
  }
}

TEST_F(CompletionQueueTest, SolicitedArmingWaitsForSolicitedOnesAndErrors) {
  CompletionQueue cq = make(8);
  cq.arm(true);
  cq.push(completion(1), false);
  EXPECT_EQ(sink_.completion_events, 0);
  cq.push(completion(2), true);
  EXPECT_EQ(sink_.completion_events, 1);
  drain(cq);
  cq.arm(true);
  cq.push(completion(3, 1, Status::kFlushed), false);
  EXPECT_EQ(sink_.completion_events, 2);
}

TEST_F(CompletionQueueTest, SolicitedArmingTellsAtOnceOfSolicitedOnesAndErrorsOnly) {
  CompletionQueue cq = make(300);
  cq.push(completion(1), false);
  EXPECT_EQ(cq.arm(true), Arming::kWaits);
  EXPECT_EQ(sink_.completion_events, 0);
  EXPECT_EQ(cq.arm(false), Arming::kWaitedBefore) << "and does not any more";
  EXPECT_EQ(sink_.completion_events, 1) << "of any it tells";
  cq.push(completion(2), true);
  cq.push(completion(3), false);
  EXPECT_EQ(cq.arm(true), Arming::kFired);
  Completion c;
  ASSERT_TRUE(cq.poll_one(c));
  EXPECT_EQ(cq.arm(true), Arming::kWaits) << "of the second it has told";
  ASSERT_TRUE(cq.poll_one(c));
  EXPECT_EQ(cq.arm(true), Arming::kWaitedBefore) << "the third is not solicited";
  EXPECT_EQ(sink_.completion_events, 2);
  EXPECT_TRUE(cq.disarm());
  EXPECT_FALSE(cq.disarm());
  // This also holds when the ring has grown, and when other completions were purged.
  cq.push(completion(4, 7, Status::kFlushed), false);
  for (std::uint64_t i = 0; i < 200; ++i) cq.push(completion(i, 9), false);
  EXPECT_EQ(cq.arm(true), Arming::kFired);
  cq.purge(9);
  EXPECT_EQ(cq.arm(true), Arming::kFired);
  cq.purge(1);
  cq.purge(7);
  EXPECT_EQ(cq.arm(true), Arming::kWaits);
}

TEST_F(CompletionQueueTest, AnyCompletionIsTheStrongerWish) {
  CompletionQueue cq = make(8);
  cq.arm(false);
  cq.arm(true);
  cq.push(completion(1), false);
  EXPECT_EQ(sink_.completion_events, 1);
  drain(cq);
  cq.arm(true);
  cq.arm(false);
  cq.push(completion(2), false);
  EXPECT_EQ(sink_.completion_events, 2);
}

TEST_F(CompletionQueueTest, ModerationGathersCompletionsBeforeAnEvent) {
  CompletionQueue cq = make(32);
  cq.moderate(4);
  cq.arm(false);
  for (std::uint64_t i = 0; i < 3; ++i) cq.push(completion(i), false);
  EXPECT_EQ(sink_.completion_events, 0);
  cq.push(completion(3), false);
  EXPECT_EQ(sink_.completion_events, 1);
  drain(cq);
  cq.arm(false);
  for (std::uint64_t i = 0; i < 4; ++i) cq.push(completion(i), false);
  EXPECT_EQ(sink_.completion_events, 2);
  drain(cq);
  for (std::uint64_t i = 0; i < 3; ++i) cq.push(completion(i), false);
  EXPECT_EQ(cq.arm(false), Arming::kWaits) << "three";
  cq.push(completion(3), false);
  EXPECT_EQ(sink_.completion_events, 3);
  drain(cq);
  for (std::uint64_t i = 0; i < 4; ++i) cq.push(completion(i), false);
  EXPECT_EQ(cq.arm(false), Arming::kFired) << "four lie there";
  EXPECT_EQ(sink_.completion_events, 4);
  for (std::uint16_t each : {std::uint16_t{0}, std::uint16_t{1}}) {
    drain(cq);
    const int before = sink_.completion_events;
    cq.moderate(each);
    cq.arm(false);
    cq.push(completion(9), false);
    EXPECT_EQ(sink_.completion_events, before + 1);
  }
}

}  // namespace
}  // namespace verbena::queue
