// SPDX-License-Identifier: BSD-2-Clause
// The progress of a send queue's requests: what is sent next, what is answered, what is done.
#include "verbena/requester/send_tracker.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace verbena::requester {
namespace {

using queue::Status;
using queue::WorkOpcode;

class SendTrackerTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kMtu = 256;

  SendTrackerTest() { tracker_.start(Psn(100)); }

  SendEntry& post(WorkOpcode opcode, std::uint32_t length = 0) {
    EXPECT_TRUE(tracker_.queue().has_memory(true));
    SendEntry& entry = tracker_.queue().push();
    entry.id = next_id_++;
    entry.opcode = opcode;
    entry.length = length;
    return entry;
  }
  SendEntry& at_cursor() { return tracker_.queue().at(tracker_.cursor()); }
  // Sends the next `packets` packets of the request at the cursor.
  void send(std::uint32_t packets) {
    SendEntry& entry = at_cursor();
    if (!entry.numbered) tracker_.number(entry, std::max((entry.length + kMtu - 1) / kMtu, 1u));
    if (entry.wants_response()) tracker_.asked_for_data();
    tracker_.sent(entry, packets);
    EXPECT_TRUE(tracker_.is_consistent());
  }
  void post_and_send(WorkOpcode opcode, std::uint32_t packets = 1) {
    post(opcode, packets * kMtu);
    send(packets);
  }
  // Returns the ids of the requests that are done now.
  std::vector<std::uint64_t> retired() {
    std::vector<std::uint64_t> ids;
    while (const SendEntry* done = tracker_.oldest_done()) {
      ids.push_back(done->id);
      tracker_.pop(*done);
      EXPECT_TRUE(tracker_.is_consistent());
    }
    return ids;
  }
  bool reaches(std::uint32_t upto, std::uint32_t reached, bool is_complete) const {
    const auto reach = tracker_.reach_of(Psn(upto));
    return reach.upto == Psn(reached) && reach.is_complete == is_complete;
  }

  SendTracker tracker_{{.capacity = 16, .max_sges = 1}};
  std::uint64_t next_id_ = 0;
};

using Ids = std::vector<std::uint64_t>;

TEST_F(SendTrackerTest, TheCursorGoesToTheNextRequestBehindTheLastPacket) {
  post(WorkOpcode::kWrite, 3 * kMtu);
  post(WorkOpcode::kSend);
  EXPECT_EQ(tracker_.unsent(), 2u);
  send(2);
  EXPECT_EQ(at_cursor().id, 0u);
  send(1);
  EXPECT_EQ(at_cursor().id, 1u);
  send(1);
  EXPECT_FALSE(tracker_.has_unsent());
  EXPECT_EQ(tracker_.psns().next(), Psn(104));
  EXPECT_EQ(tracker_.queue().at(1).first, Psn(103));
}

TEST_F(SendTrackerTest, BytesOfTheFirstCountWithoutWhatWasSent) {
  EXPECT_EQ(tracker_.unsent_bytes(kMtu), 0u);
  post(WorkOpcode::kWrite, 3 * kMtu + 10);
  EXPECT_EQ(tracker_.unsent_bytes(kMtu), 3 * kMtu + 10);
  send(2);
  EXPECT_EQ(tracker_.unsent_bytes(kMtu), kMtu + 10);
  post(WorkOpcode::kSend, 1000);
  post(WorkOpcode::kSend, 7);
  EXPECT_EQ(tracker_.unsent_bytes(kMtu), kMtu + 10 + 2 * 7) << "all but the first as the last";
}

TEST_F(SendTrackerTest, ARequestIsDoneOnceItsLastPacketIsAnswered) {
  post_and_send(WorkOpcode::kWrite, 3);
  post_and_send(WorkOpcode::kSend);
  EXPECT_EQ(retired(), Ids{});
  EXPECT_FALSE(tracker_.acknowledge(Psn(102)));
  EXPECT_EQ(retired(), Ids{});
  EXPECT_FALSE(tracker_.acknowledge(Psn(103)));
  EXPECT_EQ(retired(), Ids{0});
  EXPECT_FALSE(tracker_.is_drained());
  EXPECT_FALSE(tracker_.acknowledge(Psn(104)));
  EXPECT_EQ(retired(), Ids{1});
  EXPECT_TRUE(tracker_.is_drained());
}

TEST_F(SendTrackerTest, AnAcknowledgementDoesNotReachPastDataThatIsAwaited) {
  post_and_send(WorkOpcode::kWrite, 2);
  EXPECT_TRUE(reaches(101, 101, true));
  post_and_send(WorkOpcode::kRead, 3);
  post_and_send(WorkOpcode::kSend);
  EXPECT_TRUE(tracker_.has_responses_pending());
  EXPECT_TRUE(reaches(101, 101, true));
  EXPECT_TRUE(reaches(102, 102, true)) << "all that comes before the data";
  EXPECT_TRUE(reaches(106, 102, false));
  EXPECT_TRUE(reaches(100, 100, true)) << "nothing new";

  tracker_.acknowledge(Psn(102));
  EXPECT_EQ(retired(), Ids{0});
  EXPECT_TRUE(reaches(103, 102, false));
  tracker_.acknowledge(Psn(105));  // the data has come
  tracker_.data_came(1);
  EXPECT_TRUE(tracker_.may_ask_for_data());
  EXPECT_EQ(retired(), Ids{1});
  EXPECT_FALSE(tracker_.has_responses_pending());
  EXPECT_TRUE(reaches(106, 106, true));
}

TEST_F(SendTrackerTest, NotMoreReadsAreUnderWayThanThePeerTakes) {
  tracker_.set_reads_most(2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(tracker_.may_ask_for_data());
    post_and_send(WorkOpcode::kRead);
  }
  EXPECT_FALSE(tracker_.may_ask_for_data());
  tracker_.data_came(1);
  EXPECT_TRUE(tracker_.may_ask_for_data());
  tracker_.set_reads_most(0);
  EXPECT_FALSE(tracker_.may_ask_for_data());
  tracker_.data_came(1);
  EXPECT_TRUE(tracker_.may_ask_for_data()) << "one is always allowed";
}

TEST_F(SendTrackerTest, GoesBackIntoTheMiddleOfARequest) {
  post_and_send(WorkOpcode::kRead);
  post_and_send(WorkOpcode::kWrite, 3);
  post_and_send(WorkOpcode::kSend);
  post(WorkOpcode::kSend);
  EXPECT_FALSE(tracker_.may_ask_for_data());
  tracker_.go_back_to(Psn(102));
  EXPECT_EQ(at_cursor().id, 1u);
  EXPECT_TRUE(tracker_.may_ask_for_data()) << "they will be asked for again";
  EXPECT_TRUE(tracker_.has_responses_pending());
  EXPECT_EQ(tracker_.unsent(), 3u);
  EXPECT_EQ(tracker_.unsent_bytes(kMtu), 2 * kMtu);
  EXPECT_TRUE(tracker_.psns().is_repeating());
  send(2);
  send(1);
  EXPECT_FALSE(tracker_.psns().is_repeating());
  EXPECT_EQ(at_cursor().id, 3u);
  EXPECT_FALSE(at_cursor().numbered);
}

TEST_F(SendTrackerTest, WhatComesWhileItWasToBeSentAgainIsNotSentAgain) {
  post_and_send(WorkOpcode::kWrite, 4);
  post_and_send(WorkOpcode::kSend);
  tracker_.go_back_to(Psn(100));
  EXPECT_TRUE(tracker_.acknowledge(Psn(103)));
  EXPECT_EQ(tracker_.psns().cursor(), Psn(103));
  EXPECT_EQ(at_cursor().id, 0u);
  EXPECT_TRUE(tracker_.acknowledge(Psn(105)));
  EXPECT_FALSE(tracker_.has_unsent());
  EXPECT_EQ(retired(), (Ids{0, 1}));
}

TEST_F(SendTrackerTest, ALocalRequestIsDoneInItsPlace) {
  post_and_send(WorkOpcode::kSend);
  SendEntry& local = post(WorkOpcode::kLocalInvalidate);
  post(WorkOpcode::kSend);
  EXPECT_EQ(tracker_.oldest_with_packets(), 0u);
  local.done = true;
  tracker_.pass_local();
  send(1);
  EXPECT_EQ(retired(), Ids{}) << "behind the SEND";
  tracker_.acknowledge(Psn(101));
  EXPECT_EQ(retired(), (Ids{0, 1}));
  tracker_.go_back_to(Psn(101));
  EXPECT_EQ(at_cursor().id, 2u);
}

TEST_F(SendTrackerTest, ALocalRequestIsNotCarriedOutTwice) {
  post_and_send(WorkOpcode::kSend);
  post(WorkOpcode::kBindWindow).done = true;
  tracker_.pass_local();
  post_and_send(WorkOpcode::kSend);
  SendEntry& not_done = post(WorkOpcode::kBindWindow);
  tracker_.go_back_to(Psn(101));
  EXPECT_EQ(at_cursor().id, 2u);
  tracker_.go_back_to(Psn(102));
  EXPECT_EQ(&at_cursor(), &not_done);
}

TEST_F(SendTrackerTest, NoRequestTakesPacketsWhereAllAreLocal) {
  EXPECT_EQ(tracker_.oldest_with_packets(), tracker_.queue().tail());
  post(WorkOpcode::kBindWindow);
  EXPECT_EQ(tracker_.oldest_with_packets(), tracker_.queue().tail());
  post(WorkOpcode::kSend);
  EXPECT_EQ(tracker_.oldest_with_packets(), 1u);
}

TEST_F(SendTrackerTest, WhatFailedHereIsTheOldestOnceThoseBeforeItAreDone) {
  post_and_send(WorkOpcode::kSend);
  post(WorkOpcode::kWrite, kMtu);
  post(WorkOpcode::kSend);
  tracker_.stop_at(1, Status::kLocalProtection);
  EXPECT_TRUE(tracker_.is_stopped());
  EXPECT_FALSE(tracker_.is_stopped_at_oldest());
  tracker_.acknowledge(Psn(101));
  EXPECT_EQ(retired(), Ids{0});
  EXPECT_TRUE(tracker_.is_stopped_at_oldest());
  EXPECT_EQ(tracker_.failure(), Status::kLocalProtection);
  tracker_.pop(tracker_.queue().at(1));
  EXPECT_EQ(at_cursor().id, 2u) << "of what has completed nothing is sent";
}

TEST_F(SendTrackerTest, WhatFailedHereIsTriedAgainWhereTheCursorGoesBack) {
  post_and_send(WorkOpcode::kSend);
  post(WorkOpcode::kWrite, kMtu);
  tracker_.stop_at(1, Status::kLocalProtection);
  tracker_.go_back_to(Psn(100));
  EXPECT_FALSE(tracker_.is_stopped());
  EXPECT_EQ(at_cursor().id, 0u);
}

TEST_F(SendTrackerTest, UnreliablyARequestIsDoneWhenItIsSent) {
  post(WorkOpcode::kSend, 2 * kMtu);
  tracker_.number(at_cursor(), 2);
  EXPECT_FALSE(tracker_.sent_unreliably(at_cursor()));
  EXPECT_EQ(retired(), Ids{});
  EXPECT_TRUE(tracker_.sent_unreliably(at_cursor()));
  EXPECT_EQ(retired(), Ids{0});
  EXPECT_TRUE(tracker_.is_drained());
}

TEST_F(SendTrackerTest, NothingIsAwaitedOfWhatIsSkipped) {
  post_and_send(WorkOpcode::kRead, 2);
  post(WorkOpcode::kWrite, 3 * kMtu);
  send(1);
  tracker_.stop_at(1, Status::kLocalProtection);
  while (!tracker_.queue().is_empty()) tracker_.pop(tracker_.queue().at(tracker_.queue().head()));
  tracker_.skip_all();
  EXPECT_TRUE(tracker_.is_drained());
  EXPECT_TRUE(tracker_.is_consistent());
  EXPECT_FALSE(tracker_.is_stopped());
  EXPECT_TRUE(tracker_.may_ask_for_data());
  post_and_send(WorkOpcode::kSend);
  EXPECT_EQ(tracker_.psns().una(), Psn(105)) << "behind all PSNs that were given";
}

TEST_F(SendTrackerTest, AResetForgetsTheQueue) {
  post_and_send(WorkOpcode::kRead, 2);
  tracker_.reset();
  EXPECT_TRUE(tracker_.queue().is_empty());
  EXPECT_TRUE(tracker_.is_consistent());
  tracker_.start(Psn(7));
  post_and_send(WorkOpcode::kSend);
  EXPECT_EQ(tracker_.queue().at(0).first, Psn(7));
}

}  // namespace
}  // namespace verbena::requester
