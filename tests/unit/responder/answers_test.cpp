// SPDX-License-Identifier: BSD-2-Clause
// Answers: their order, their packets, and what a peer may ask for again.
#include "verbena/responder/answers.hpp"

#include "receiver.hpp"

namespace verbena::responder::testing {
namespace {

using wire::AethKind;
using wire::Opcode;

class AnswersTest : public ReceiverTest {
 protected:
  AnswersTest() : batch_bytes_(wire::TxBatch::kUsualBytes) { answers_.allow(2); }

  // Adds a READ of `length` bytes from offset `at` of our memory.
  Response& add_read(std::uint32_t psn, std::size_t at, std::uint32_t length) {
    position_.expected = Psn(psn) + std::max((length + kMtu - 1) / kMtu, 1u);
    return fill(
        answers_.add(packet(Opcode::kRcReadRequest, Psn(psn)).view, ++position_.messages, kDomain),
        at, length);
  }
  Response& fill(Response& r, std::size_t at, std::uint32_t length) {
    r.packets = std::max((length + kMtu - 1) / kMtu, 1u);
    r.key = key_;
    r.address = address(at);
    r.length = length;
    return r;
  }
  bool send() { return answers_.send(position_, batch_, gone_); }
  wire::PacketView sent(std::size_t i) {
    const auto view = wire::parse_packet(batch_.bytes_of(batch_.packets()[i]));
    EXPECT_TRUE(view.ok());
    return *view;
  }

  Position position_{Psn(100), 0};
  Answers answers_{endpoint_};
  std::optional<Answers::Gone> gone_;
  std::vector<std::uint8_t> batch_bytes_;
  wire::TxBatch batch_{batch_bytes_};
};

TEST_F(AnswersTest, ReadsThenTheAcknowledgementThenTheNak) {
  add_read(100, 0, 2 * kMtu + 3);
  answers_.set_ack_pending(false);
  answers_.set_nak_pending(wire::Aeth::nak(wire::NakCode::kPsnSequence, position_.messages));
  EXPECT_FALSE(send());
  ASSERT_EQ(batch_.size(), 4u) << "the NAK acknowledges, too";
  EXPECT_EQ(sent(0).opcode, static_cast<std::uint8_t>(Opcode::kRcReadResponseFirst));
  EXPECT_EQ(sent(1).opcode, static_cast<std::uint8_t>(Opcode::kRcReadResponseMiddle));
  EXPECT_EQ(sent(2).opcode, static_cast<std::uint8_t>(Opcode::kRcReadResponseLast));
  EXPECT_TRUE(holds(2 * kMtu, sent(2).payload));
  EXPECT_EQ(sent(2).payload.size(), 3u);
  EXPECT_EQ(sent(2).aeth().msn, 1u);
  EXPECT_EQ(sent(3).aeth().kind(), AethKind::kNak);
  EXPECT_EQ(sent(3).bth.psn, Psn(103));
  EXPECT_FALSE(answers_.are_pending());
}

TEST_F(AnswersTest, AnAcknowledgementSaysHowFarRequestsAre) {
  position_ = {Psn(105), 3};
  answers_.set_ack_pending(false);
  EXPECT_TRUE(answers_.are_pending());
  EXPECT_FALSE(answers_.are_urgent());
  EXPECT_FALSE(send());
  ASSERT_EQ(batch_.size(), 1u);
  EXPECT_EQ(sent(0).bth.psn, Psn(104));
  EXPECT_EQ(sent(0).aeth().kind(), AethKind::kAck);
  EXPECT_EQ(sent(0).aeth().msn, 3u);
  EXPECT_FALSE(answers_.may_acknowledge(position_)) << "nothing new";
  EXPECT_TRUE(answers_.may_acknowledge({Psn(106), 4}));
}

TEST_F(AnswersTest, AnAcknowledgementPassesNoRead) {
  add_read(100, 0, 8);
  answers_.set_ack_pending(true);
  EXPECT_FALSE(answers_.may_acknowledge(position_));
  EXPECT_FALSE(send());
  ASSERT_EQ(batch_.size(), 2u);
  EXPECT_EQ(sent(1).row->operation, wire::Operation::kAcknowledge);
}

TEST_F(AnswersTest, AFullBatchGoesOnWhereItStopped) {
  add_read(100, 0, 4096);
  std::vector<std::uint8_t> small(5 * (kMtu + 40) + wire::TxBatch::kRoomBehind);
  std::vector<std::uint8_t> got;
  for (int i = 0; i < 10; ++i) {
    wire::TxBatch batch(small);
    const bool more = answers_.send(position_, batch, gone_);
    for (const auto& p : batch.packets()) {
      const auto view = wire::parse_packet(batch.bytes_of(p));
      ASSERT_TRUE(view.ok());
      got.insert(got.end(), view->payload.begin(), view->payload.end());
    }
    if (!more) break;
  }
  EXPECT_TRUE(std::equal(got.begin(), got.end(), bytes_.begin(), bytes_.end()));
}

TEST_F(AnswersTest, AnAtomicIsAnsweredAgainFromWhatWasSaved) {
  const Packet atomic = packet(Opcode::kRcFetchAdd, Psn(100));
  answers_.add_saved(atomic.view, 1, 77);
  position_ = {Psn(101), 1};
  EXPECT_FALSE(send());
  answers_.repeat_saved(atomic.view, 1);
  EXPECT_FALSE(send());
  answers_.repeat_saved(packet(Opcode::kRcFetchAdd, Psn(99)).view, 1);
  EXPECT_FALSE(send());
  ASSERT_EQ(batch_.size(), 2u) << "of PSN 99 nothing is known";
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(sent(i).bth.psn, Psn(100));
    EXPECT_EQ(sent(i).atomic_ack_eth().original, 77u);
  }
}

TEST_F(AnswersTest, ThePeerHasSoManyReadsOutstanding) {
  add_read(100, 0, 8);
  EXPECT_TRUE(answers_.has_room_for_new());
  add_read(101, 0, 8);
  EXPECT_FALSE(answers_.has_room_for_new());
  EXPECT_FALSE(send());
  EXPECT_TRUE(answers_.has_room_for_new());
}

TEST_F(AnswersTest, AReadThatIsAskedForAgainIsCopied) {
  form().borrowed_least = 1;
  add_read(100, 0, 2 * kMtu);
  EXPECT_FALSE(send());
  ASSERT_EQ(batch_.size(), 2u);
  EXPECT_NE(batch_.packets()[0].borrowed, nullptr);
  Response* again = answers_.repeat(Psn(101), position_.messages);
  ASSERT_NE(again, nullptr);
  fill(*again, kMtu, kMtu).domain = kDomain;
  EXPECT_FALSE(send());
  ASSERT_EQ(batch_.size(), 3u);
  EXPECT_EQ(batch_.packets()[2].borrowed, nullptr);
  EXPECT_TRUE(holds(kMtu, sent(2).payload));
}

TEST_F(AnswersTest, MemoryThatHasGoneIsToldAndEndsTheLine) {
  add_read(100, 0, 2 * kMtu);
  add_read(102, 0, 8);
  ASSERT_TRUE(registry_.deregister(key_).ok());
  EXPECT_TRUE(send());
  ASSERT_TRUE(gone_);
  EXPECT_EQ(gone_->psn, Psn(100));
  EXPECT_EQ(gone_->request.address, address(0));
  EXPECT_EQ(batch_.size(), 0u);
  EXPECT_FALSE(answers_.are_pending());
}

// The answers have left the line, and the queue pair has gone to its error state.
TEST_F(AnswersTest, AnAnswerIsTakenBackWhoseBytesWereGone) {
  form().borrowed_least = 1;
  add_read(100, 0, 2 * kMtu + 3);
  add_read(103, 0, 8);
  EXPECT_FALSE(send());
  EXPECT_FALSE(answers_.take_back(Psn(104), 8));
  answers_.flush(position_);
  const auto gone = answers_.take_back(Psn(102), 3);
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->psn, Psn(102));
  EXPECT_EQ(gone->refusal, memory::Refusal::kNotMapped);
  EXPECT_EQ(gone->request.key, key_);
  EXPECT_EQ(gone->request.address, address(2 * kMtu));
  EXPECT_EQ(gone->request.length, 3u);
}

TEST_F(AnswersTest, WhatIsOwedIsForgottenButForANak) {
  add_read(100, 0, 8);
  answers_.set_ack_pending(true);
  answers_.flush(position_);
  EXPECT_FALSE(answers_.are_pending());
  add_read(101, 0, 8);
  answers_.set_nak_pending(wire::Aeth::nak(wire::NakCode::kRemoteAccess, 2));
  answers_.flush(position_);
  EXPECT_FALSE(send());
  EXPECT_EQ(batch_.size(), 2u) << "what is before the NAK goes, too";
  answers_.set_nak_pending(wire::Aeth::rnr_nak(12, 2));
  EXPECT_EQ(port_.rnr_naks_sent.read(), 1u);
  answers_.reset();
  EXPECT_FALSE(answers_.are_pending());
}

// The peer would take messages for failed that were completed here.
TEST_F(AnswersTest, WhatWasTakenInIsAcknowledgedAtTheEnd) {
  position_ = {Psn(105), 3};
  answers_.flush(position_);
  EXPECT_TRUE(answers_.are_urgent());
  EXPECT_FALSE(send());
  ASSERT_EQ(batch_.size(), 1u);
  EXPECT_EQ(wire::BthView(batch_.bytes_of(batch_.packets()[0]).data()).psn(), Psn(104));
  answers_.flush(position_);
  EXPECT_FALSE(answers_.are_pending()) << "nothing new";
}

}  // namespace
}  // namespace verbena::responder::testing
