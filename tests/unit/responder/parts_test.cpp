// SPDX-License-Identifier: BSD-2-Clause
// The line of responses, saved results, peers with a different PSN, messages with a tag.
#include <array>

#include "receiver.hpp"
#include "verbena/queue/tag_matching.hpp"
#include "verbena/responder/psn_mismatch.hpp"
#include "verbena/responder/response_line.hpp"
#include "verbena/responder/saved_results.hpp"
#include "verbena/responder/tagged_message.hpp"
#include "verbena/wire/bytes.hpp"

namespace verbena::responder::testing {
namespace {

using wire::Operation;

// --- the line of responses ---------------------------------------------------------------------

class ResponseLineTest : public ::testing::Test {
 protected:
  ResponseLineTest() { line_.reserve(4); }
  Response& add(std::uint32_t psn, std::uint32_t packets) {
    Response& r = line_.push();
    r.first = Psn(psn);
    r.packets = packets;
    return r;
  }
  ResponseLine line_;
};

TEST_F(ResponseLineTest, TheOldestLeavesFirst) {
  add(10, 1);
  add(11, 3);
  EXPECT_EQ(line_.front().first, Psn(10));
  line_.pop();
  EXPECT_EQ(line_.front().first, Psn(11));
  line_.pop();
  EXPECT_TRUE(line_.empty());
}

TEST_F(ResponseLineTest, RoomOfThoseThatLeftIsUsedAgain) {
  for (std::uint32_t i = 0; i < 3; ++i) add(i, 1);
  const Response* first = &line_.front();
  for (std::uint32_t i = 3; i < 100; ++i) {
    add(i, 1);
    EXPECT_EQ(line_.front().first, Psn(i - 3));
    line_.pop();
    EXPECT_EQ(line_.size(), 3u);
  }
  EXPECT_LT(&line_.front() - first, 4) << "no new memory";
  EXPECT_GE(&line_.front() - first, 0);
}

TEST_F(ResponseLineTest, OnlyNewOnesCount) {
  add(10, 1);
  add(9, 1).repeated = true;
  EXPECT_EQ(line_.size(), 2u);
  EXPECT_EQ(line_.count_new(), 1u);
}

TEST_F(ResponseLineTest, AskedAgainLaterAnswersAreForgotten) {
  add(10, 2);
  add(12, 2);
  add(14, 1);
  EXPECT_FALSE(line_.truncate(Psn(12))) << "to be queued again";
  EXPECT_EQ(line_.size(), 1u);
}

TEST_F(ResponseLineTest, AnAnswerUnderWayIsNotGivenTwice) {
  add(10, 4).sent = 1;
  add(14, 1);
  EXPECT_TRUE(line_.truncate(Psn(12))) << "its packet is still to come";
  EXPECT_EQ(line_.size(), 1u);
  line_.front().sent = 3;
  EXPECT_FALSE(line_.truncate(Psn(12))) << "it has gone already";
  EXPECT_TRUE(line_.empty());
}

TEST_F(ResponseLineTest, WhatWasSentIsKnownUntilTheNextIsAdded) {
  add(10, 2).sent = 2;
  line_.pop();
  EXPECT_TRUE(line_.empty());
  add(12, 4).sent = 2;
  add(16, 1);
  EXPECT_EQ(line_.find_sent(Psn(11)), nullptr) << "another was added to an empty line";
  line_.clear();
  EXPECT_TRUE(line_.empty());
  for (const std::uint32_t psn : {12u, 13u}) {
    ASSERT_NE(line_.find_sent(Psn(psn)), nullptr);
    EXPECT_EQ(line_.find_sent(Psn(psn))->first, Psn(12));
  }
  for (const std::uint32_t psn : {11u, 14u, 16u}) EXPECT_EQ(line_.find_sent(Psn(psn)), nullptr);
}

// --- saved results -----------------------------------------------------------------------------

TEST(SavedResultsTest, TheLastOnesAreKnown) {
  SavedResults saved;
  saved.resize(2);
  for (std::uint32_t i = 0; i < 3; ++i) saved.save(Psn(i), Operation::kFetchAdd, 100 + i);
  EXPECT_EQ(saved.find(Psn(0), Operation::kFetchAdd), nullptr);
  ASSERT_NE(saved.find(Psn(1), Operation::kFetchAdd), nullptr);
  EXPECT_EQ(*saved.find(Psn(1), Operation::kFetchAdd), 101u);
  EXPECT_EQ(*saved.find(Psn(2), Operation::kFetchAdd), 102u);
}

TEST(SavedResultsTest, TheNewestStayIfTheirNumberChanges) {
  SavedResults saved;
  saved.resize(4);
  for (std::uint32_t i = 0; i < 6; ++i) saved.save(Psn(i), Operation::kFetchAdd, 100 + i);
  const auto known = [&saved] {
    std::vector<std::uint64_t> list;
    for (std::uint32_t i = 0; i < 9; ++i) {
      if (const auto* one = saved.find(Psn(i), Operation::kFetchAdd)) list.push_back(*one);
    }
    return list;
  };
  saved.resize(2);
  EXPECT_EQ(known(), (std::vector<std::uint64_t>{104, 105}));
  saved.resize(3);
  EXPECT_EQ(known(), (std::vector<std::uint64_t>{104, 105}));
  saved.save(Psn(6), Operation::kFetchAdd, 106);
  EXPECT_EQ(known(), (std::vector<std::uint64_t>{104, 105, 106}));
  saved.save(Psn(7), Operation::kFetchAdd, 107);
  EXPECT_EQ(known(), (std::vector<std::uint64_t>{105, 106, 107}));
}

// PSNs come again after 2^24 packets.
TEST(SavedResultsTest, OfTwoWithOnePsnTheNewerCounts) {
  SavedResults saved;
  saved.resize(4);
  for (const std::uint64_t value : {1u, 2u, 3u}) {
    saved.save(Psn(9), Operation::kFetchAdd, value);
    EXPECT_EQ(*saved.find(Psn(9), Operation::kFetchAdd), value);
  }
}

TEST(SavedResultsTest, AnotherOperationHasNone) {
  SavedResults saved;
  saved.resize(1);
  EXPECT_EQ(saved.find(Psn(0), Operation::kFetchAdd), nullptr) << "an empty place has PSN 0";
  saved.save(Psn(5), Operation::kFetchAdd, 1);
  EXPECT_EQ(saved.find(Psn(5), Operation::kCompareSwap), nullptr);
  saved.clear();
  EXPECT_EQ(saved.find(Psn(5), Operation::kFetchAdd), nullptr);
}

// --- peers with a different PSN ------------------------------------------------------------------

TEST(PsnMismatchTest, ItIsToldOnceWhenOnePacketComesAgainAndAgain) {
  PsnMismatch mismatch;
  mismatch.start();
  EXPECT_FALSE(mismatch.note_foreign(Psn(5), true));
  EXPECT_FALSE(mismatch.note_foreign(Psn(5), true));
  EXPECT_TRUE(mismatch.note_foreign(Psn(5), true));
  EXPECT_FALSE(mismatch.note_foreign(Psn(5), true));
}

TEST(PsnMismatchTest, OtherPacketsOfAReliablePeerAreLosses) {
  PsnMismatch mismatch;
  mismatch.start();
  for (std::uint32_t i = 0; i < 20; ++i) EXPECT_FALSE(mismatch.note_foreign(Psn(i), true));
}

TEST(PsnMismatchTest, WhereNothingIsRepeatedAnyThreeWillDo) {
  PsnMismatch mismatch;
  mismatch.start();
  EXPECT_FALSE(mismatch.note_foreign(Psn(1), false));
  EXPECT_FALSE(mismatch.note_foreign(Psn(2), false));
  EXPECT_TRUE(mismatch.note_foreign(Psn(3), false));
}

TEST(PsnMismatchTest, ItIsNoneOnceSomethingExpectedHasCome) {
  PsnMismatch mismatch;
  mismatch.start();
  mismatch.note_expected();
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(mismatch.note_foreign(Psn(5), true));
  mismatch.start();
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(mismatch.note_foreign(Psn(5), true));
  EXPECT_TRUE(mismatch.note_foreign(Psn(5), true)) << "a new connection";
}

// --- messages with a tag -----------------------------------------------------------------------

class TaggedMessageTest : public ReceiverTest {
 protected:
  static constexpr std::uint64_t kTag = 0x1122334455667788;

  TaggedMessageTest() : srq_({.capacity = 4, .max_sges = 1, .shared = true}, sink_) {
    srq_.complete_to(cq_);
    srq_.tags = std::make_unique<queue::TagMatching>(
        queue::TagMatching::Options{.max_tags = 4, .max_sges = 1}, cq_);
    endpoint_.srq = &srq_;
  }
  void expect_tag() {
    queue::TagOperation operation;
    operation.opcode = queue::TagOpcode::kAdd;
    operation.receive_id = 42;
    operation.tag = kTag;
    operation.mask = ~0ull;
    const std::array<queue::Sge, 1> sges{sge(0, 64)};
    operation.sges = sges;
    ASSERT_EQ(srq_.tags->post(operation), queue::TagMatching::Posted::kOk);
  }
  static std::vector<std::uint8_t> message(TagHeaderOpcode opcode, std::size_t length = 64) {
    std::vector<std::uint8_t> m(64);
    m[0] = static_cast<std::uint8_t>(opcode);
    wire::store_be32(m.data() + 4, 0xabcd);
    wire::store_be64(m.data() + 8, kTag);
    wire::store_be64(m.data() + 16, 0x5000);
    wire::store_be32(m.data() + 24, 0x77);
    wire::store_be32(m.data() + 28, 4000);
    m.resize(length);
    return m;
  }
  queue::Completion finished() {
    queue::Completion c;
    tagged_.finish(c, receive_, endpoint_);
    return c;
  }

  queue::SharedReceive srq_;
  queue::ActiveReceive receive_;
  TaggedMessage tagged_;
};

TEST_F(TaggedMessageTest, AnEagerMessageGoesToItsBufferWithoutItsHeader) {
  expect_tag();
  const auto bytes = message(TagHeaderOpcode::kEager);
  ASSERT_TRUE(tagged_.match(bytes, *srq_.tags, receive_));
  EXPECT_EQ(receive_.id, 42u);
  queue::Payload payload{std::span<const std::uint8_t>(bytes)};
  tagged_.strip(payload, true);
  EXPECT_EQ(payload.size(), bytes.size() - kTagHeaderSize);
  tagged_.strip(payload, false);
  EXPECT_EQ(payload.size(), bytes.size() - kTagHeaderSize) << "later packets have none";
  const queue::Completion c = finished();
  EXPECT_EQ(c.opcode, queue::CompletionOpcode::kTagReceive);
  EXPECT_EQ(c.tag, kTag);
  EXPECT_EQ(c.tag_private, 0xabcdu);
  EXPECT_EQ(c.flags, queue::kTagMatched | queue::kTagDataValid);
}

TEST_F(TaggedMessageTest, ARendezvousIsHandedOn) {
  expect_tag();
  const auto bytes = message(TagHeaderOpcode::kRendezvous);
  ASSERT_TRUE(tagged_.match(bytes, *srq_.tags, receive_));
  queue::Payload payload{std::span<const std::uint8_t>(bytes)};
  tagged_.strip(payload, true);
  EXPECT_EQ(payload.size(), 0u);
  EXPECT_EQ(finished().byte_length, 4000u);
  ASSERT_EQ(endpoint_.rendezvous.size(), 1u);
  EXPECT_EQ(endpoint_.rendezvous[0].remote_address, 0x5000u);
  EXPECT_EQ(endpoint_.rendezvous[0].remote_key, 0x77u);
  EXPECT_EQ(endpoint_.rendezvous[0].length, 4000u);
}

TEST_F(TaggedMessageTest, WithoutABufferItIsUnexpected) {
  EXPECT_FALSE(tagged_.match(message(TagHeaderOpcode::kEager), *srq_.tags, receive_));
  EXPECT_FALSE(tagged_.is_matched());
  EXPECT_EQ(finished().opcode, queue::CompletionOpcode::kTagReceive);
  EXPECT_EQ(finished().flags, 0u);
  EXPECT_TRUE(srq_.tags->wants_synchronisation());
  tagged_.take_back(*srq_.tags);
  EXPECT_FALSE(srq_.tags->wants_synchronisation()) << "it comes again";
}

TEST_F(TaggedMessageTest, WhatHasNoTagMatchesNothing) {
  expect_tag();
  EXPECT_FALSE(tagged_.match(message(TagHeaderOpcode::kNoTag), *srq_.tags, receive_));
  EXPECT_EQ(finished().opcode, queue::CompletionOpcode::kTagNoTag);
  EXPECT_FALSE(tagged_.match(message(TagHeaderOpcode::kEager, 15), *srq_.tags, receive_));
  EXPECT_EQ(finished().opcode, queue::CompletionOpcode::kTagNoTag) << "too short for a header";
  EXPECT_FALSE(tagged_.match(message(TagHeaderOpcode::kRendezvous, 31), *srq_.tags, receive_));
  EXPECT_FALSE(srq_.tags->wants_synchronisation());
}

}  // namespace
}  // namespace verbena::responder::testing
