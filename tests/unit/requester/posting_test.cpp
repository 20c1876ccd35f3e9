// SPDX-License-Identifier: BSD-2-Clause
// Tests which requests can be posted, and what the program is told when a request is done.
#include "verbena/requester/posting.hpp"

#include "sender.hpp"
#include "verbena/requester/read_chunks.hpp"
#include "verbena/requester/send_completions.hpp"

namespace verbena::requester::testing {
namespace {

using queue::Status;
using queue::WorkOpcode;

class PostingTest : public SenderTest {
 protected:
  queue::SendRequest request(WorkOpcode opcode, std::uint8_t flags = 0) {
    queue::SendRequest r;
    r.id = 42;
    r.opcode = opcode;
    r.flags = flags;
    r.sges = {sges_.data(), 1};
    return r;
  }
  // Posts a request and returns the result, which would_post() must predict.
  Posted verdict(const queue::SendRequest& r) {
    const std::uint32_t tail = queue_.tail();
    const Posted would = would_post(endpoint_, queue_, r);
    EXPECT_EQ(queue_.tail(), tail);
    const Posted posted = post(endpoint_, queue_, r);
    EXPECT_EQ(queue_.tail(), tail + (posted == Posted::kOk ? 1 : 0));
    EXPECT_EQ(would == Posted::kOk, posted == Posted::kOk || posted == Posted::kInlineGone);
    return posted;
  }

  std::array<queue::Sge, 3> sges_{sge(0, 8), sge(8, 8), sge(16, 8)};
  queue::AddressVector address_;
};

TEST_F(PostingTest, KeepsWhatIsAskedFor) {
  queue::SendRequest r = request(WorkOpcode::kWriteImmediate, queue::kSignaled);
  r.remote_address = 0x1234;
  r.remote_key = 77;
  r.immediate = 99;
  r.sges = {sges_.data(), 2};
  ASSERT_EQ(verdict(r), Posted::kOk);
  const SendEntry& entry = queue_.at(queue_.head());
  EXPECT_EQ(entry.id, 42u);
  EXPECT_EQ(entry.opcode, WorkOpcode::kWriteImmediate);
  EXPECT_EQ(entry.length, 16u);
  EXPECT_EQ(entry.sge_count, 2);
  EXPECT_EQ(queue_.sges(queue_.head())[1], sges_[1]);
  EXPECT_EQ(entry.remote_address, 0x1234u);
  EXPECT_EQ(entry.remote_key, 77u);
  EXPECT_EQ(entry.immediate, 99u);
}

TEST_F(PostingTest, CopiesInlineDataAtOnce) {
  queue::SendRequest r = request(WorkOpcode::kSend, queue::kInline);
  r.sges = {sges_.data(), 3};
  ASSERT_EQ(verdict(r), Posted::kOk) << "no list is kept, so none is too long";
  const auto was = bytes_;
  bytes_.fill(0);
  EXPECT_TRUE(std::equal(was.begin(), was.begin() + 24, queue_.inline_bytes(queue_.head())));
}

TEST_F(PostingTest, RefusesAFifthOfFour) {
  for (int i = 0; i < 4; ++i) ASSERT_EQ(verdict(request(WorkOpcode::kSend)), Posted::kOk);
  EXPECT_EQ(verdict(request(WorkOpcode::kSend)), Posted::kQueueFull);
}

TEST_F(PostingTest, RefusesListsAndInlineDataThatAreTooLong) {
  queue::SendRequest r = request(WorkOpcode::kSend);
  r.sges = sges_;
  EXPECT_EQ(verdict(r), Posted::kTooManySges);
  sges_[0].length = 65;
  EXPECT_EQ(verdict(request(WorkOpcode::kSend, queue::kInline)), Posted::kInlineTooLong);
  sges_[0].length = (1u << 30) + 1;
  EXPECT_EQ(verdict(request(WorkOpcode::kSend)), Posted::kMessageTooLong);
}

TEST_F(PostingTest, RefusesInlineReadsAndAtomics) {
  EXPECT_EQ(verdict(request(WorkOpcode::kRead, queue::kInline)), Posted::kInlineForbidden);
  EXPECT_EQ(verdict(request(WorkOpcode::kFetchAdd, queue::kInline)), Posted::kInlineForbidden);
}

TEST_F(PostingTest, AnAtomicHasEightBytes) {
  EXPECT_EQ(verdict(request(WorkOpcode::kFetchAdd)), Posted::kOk);
  sges_[0].length = 4;
  EXPECT_EQ(verdict(request(WorkOpcode::kCompareSwap)), Posted::kBadLength);
}

TEST_F(PostingTest, ADatagramHasAnAddressAndOnePacket) {
  endpoint_.transport = Transport::kUd;
  EXPECT_EQ(verdict(request(WorkOpcode::kSend)), Posted::kNoAddress);
  queue::SendRequest r = request(WorkOpcode::kSend);
  r.address = &address_;
  r.remote_qkey = 0x11;
  EXPECT_EQ(verdict(r), Posted::kOk);
  EXPECT_EQ(queue_.at(queue_.head()).remote_key, 0x11u);
  sges_[0].length = kMtu + 1;
  EXPECT_EQ(verdict(r), Posted::kMessageTooLong);
}

TEST_F(PostingTest, EachTransportHasItsOperations) {
  endpoint_.transport = Transport::kUd;
  EXPECT_EQ(verdict(request(WorkOpcode::kWrite)), Posted::kWrongOpcode);
  endpoint_.transport = Transport::kUc;
  EXPECT_EQ(verdict(request(WorkOpcode::kRead)), Posted::kWrongOpcode);
  EXPECT_EQ(verdict(request(WorkOpcode::kWrite)), Posted::kOk);
  endpoint_.transport = Transport::kXrcReceive;
  EXPECT_EQ(verdict(request(WorkOpcode::kSend)), Posted::kWrongOpcode);
}

class SendCompletionsTest : public PostingTest {
 protected:
  void finish(std::uint8_t flags, Status status) {
    ASSERT_EQ(post(endpoint_, queue_, request(WorkOpcode::kWrite, flags)), Posted::kOk);
    done_.complete(queue_, status);
    queue_.pop(queue_.at(queue_.head()));
    freed_.add_polled(1);
  }
  SendCompletions done_{endpoint_};
};

TEST_F(SendCompletionsTest, OneFreesTheSlotsOfThoseBefore) {
  finish(0, Status::kSuccess);
  finish(0, Status::kSuccess);
  EXPECT_TRUE(completions().empty());
  finish(queue::kSignaled, Status::kSuccess);
  const auto told = completions();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].slots, 3u);
  EXPECT_EQ(told[0].opcode, queue::CompletionOpcode::kWrite);
  finish(queue::kSignaled, Status::kSuccess);
  EXPECT_EQ(completions().at(0).slots, 1u);
}

TEST_F(SendCompletionsTest, AFailureIsToldUnsignaledOrNot) {
  finish(0, Status::kRemoteAccess);
  finish(0, Status::kFlushed);
  const auto told = completions();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].status, Status::kRemoteAccess);
  EXPECT_EQ(told[1].status, Status::kFlushed);
}

TEST_F(SendCompletionsTest, AQueuePairMayHaveAllSignaled) {
  endpoint_.signal_all = true;
  finish(0, Status::kSuccess);
  EXPECT_EQ(completions().size(), 1u);
}

TEST_F(SendCompletionsTest, ForgetsWhatWasNotTold) {
  finish(0, Status::kSuccess);
  done_.forget();
  finish(queue::kSignaled, Status::kSuccess);
  EXPECT_EQ(completions().at(0).slots, 1u);
}

TEST(ReadChunksTest, EndAtFixedPlaces) {
  SendEntry read;
  read.opcode = WorkOpcode::kRead;
  read.first = Psn(100);
  read.packets = 10;
  EXPECT_EQ(psns_asked_for(read, Psn(100), 4), 4u);
  EXPECT_EQ(psns_asked_for(read, Psn(102), 4), 2u) << "as far as the one that was lost";
  EXPECT_EQ(psns_asked_for(read, Psn(108), 4), 2u) << "no further than the READ";
  EXPECT_EQ(chunks_ended(read, Psn(100), 3, 4), 0u);
  EXPECT_EQ(chunks_ended(read, Psn(103), 1, 4), 1u);
  EXPECT_EQ(chunks_ended(read, Psn(100), 10, 4), 3u);
  read.packets = 8;
  EXPECT_EQ(chunks_ended(read, Psn(104), 4, 4), 1u) << "the last one is whole, and counts once";
  read.opcode = WorkOpcode::kFetchAdd;
  EXPECT_EQ(psns_asked_for(read, Psn(100), 4), 1u);
}

}  // namespace
}  // namespace verbena::requester::testing
