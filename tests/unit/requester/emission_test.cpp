// SPDX-License-Identifier: BSD-2-Clause
// How a request becomes packets: their headers, where their payload comes from, and how many
// packets each one stands for.
#include "verbena/requester/emission.hpp"

#include <algorithm>

#include "sender.hpp"
#include "verbena/requester/posting.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::requester::testing {
namespace {

using queue::WorkOpcode;
using wire::Operation;
using Result = Emission::Result;

class EmissionTest : public SenderTest {
 protected:
  EmissionTest() : batch_bytes_(wire::TxBatch::kUsualBytes) { window_.set_capacity(30, 30); }

  // Posts a request, gives it PSNs and makes all its packets.
  void send(WorkOpcode opcode, std::vector<queue::Sge> sges, std::uint8_t flags = 0) {
    queue::SendRequest r;
    r.opcode = opcode;
    r.flags = flags;
    r.sges = sges;
    r.remote_address = 0x5000;
    r.remote_key = 0x77;
    r.immediate = 0x01020304;
    r.swap_or_add = 5;
    const std::uint32_t position = queue_.tail();
    ASSERT_EQ(post(endpoint_, queue_, r), Posted::kOk);
    SendEntry& entry = queue_.at(position);
    entry.packets = std::max((entry.length + kMtu - 1) / kMtu, 1u);
    entry.first = psns_.give(entry.packets);
    message_ = emission_.message_at(position, false, batch_);
    while (!psns_.cursor().is_after(entry.last())) {
      const std::uint32_t psns = emission_.psns_at(message_, psns_.cursor());
      result_ = emission_.emit(message_, psns_.cursor(), psns, batch_, false);
      if (result_ != Result::kSent) break;
      psns_.send(psns);
    }
    emission_.release(batch_);
  }
  wire::PacketView packet(std::size_t i) {
    const auto view = wire::parse_packet(batch_.bytes_of(batch_.packets()[i]));
    EXPECT_TRUE(view.ok());
    return *view;
  }
  bool carries(const wire::PacketView& view, std::size_t from, std::size_t length) const {
    return view.payload.size() == length &&
           std::equal(view.payload.begin(), view.payload.end(), bytes_.begin() + from);
  }

  SendPsns psns_{Psn(1000)};
  Window window_;
  Emission emission_{endpoint_, queue_, psns_, window_};
  std::vector<std::uint8_t> batch_bytes_;
  wire::TxBatch batch_{batch_bytes_};
  Emission::Message message_;
  Result result_ = Result::kSent;
};

TEST_F(EmissionTest, AMessageIsCutAtTheMtu) {
  send(WorkOpcode::kWriteImmediate, {sge(0, 2 * kMtu + 6)});
  ASSERT_EQ(batch_.size(), 3u);
  EXPECT_TRUE(carries(packet(0), 0, kMtu));
  EXPECT_TRUE(carries(packet(1), kMtu, kMtu));
  EXPECT_TRUE(carries(packet(2), 2 * kMtu, 6));
  EXPECT_EQ(packet(0).reth().length, 2 * kMtu + 6);
  EXPECT_FALSE(packet(1).row->reth);
  EXPECT_TRUE(packet(2).row->immediate) << "with the last packet";
  EXPECT_EQ(packet(2).bth.psn, Psn(1002));
}

TEST_F(EmissionTest, BuffersAreGatheredOneAfterTheOther) {
  send(WorkOpcode::kSend, {sge(100, 10), sge(500, kMtu)});
  ASSERT_EQ(batch_.size(), 2u);
  EXPECT_TRUE(std::equal(bytes_.begin() + 100, bytes_.begin() + 110, packet(0).payload.begin()));
  EXPECT_TRUE(carries(packet(1), 500 + kMtu - 10, 10));
}

TEST_F(EmissionTest, AnAtomicBringsItsNumbersAndNoData) {
  send(WorkOpcode::kFetchAdd, {sge(0, 8)});
  ASSERT_EQ(batch_.size(), 1u);
  EXPECT_EQ(packet(0).row->operation, Operation::kFetchAdd);
  EXPECT_EQ(packet(0).atomic_eth().swap_or_add, 5u);
  EXPECT_TRUE(packet(0).payload.empty());
}

TEST_F(EmissionTest, AReadAsksForAChunkAtATime) {
  send(WorkOpcode::kRead, {sge(0, 15 * kMtu)});
  ASSERT_EQ(window_.chunk(), 10u);
  ASSERT_EQ(batch_.size(), 2u);
  EXPECT_EQ(packet(0).reth().length, 10 * kMtu);
  EXPECT_EQ(packet(1).reth().length, 5 * kMtu);
  EXPECT_EQ(packet(1).reth().va, 0x5000u + 10 * kMtu);
}

TEST_F(EmissionTest, APacketStandsForSeveralWhereThePathSaysSo) {
  form().merged_most = 32 * 1024;
  send(WorkOpcode::kWrite, {sge(0, 4 * kMtu)});
  ASSERT_EQ(batch_.size(), 1u);
  EXPECT_EQ(batch_.packets()[0].psns, 4u);
  EXPECT_EQ(batch_.wire_packets(), 4u);
  EXPECT_EQ(psns_.in_flight(), 4u);
}

TEST_F(EmissionTest, ALongPayloadIsBorrowedOnceAndCopiedWhenItGoesAgain) {
  form().borrowed_least = wire::Path::Packing::kBorrowedLeast;
  send(WorkOpcode::kWrite, {sge(0, 3 * kMtu)});
  ASSERT_EQ(batch_.size(), 3u);
  EXPECT_EQ(batch_.packets()[1].borrowed, bytes_.data() + kMtu);
  batch_.clear();
  message_ = emission_.message_at(queue_.head(), false, batch_);
  ASSERT_EQ(emission_.emit(message_, Psn(1001), 1, batch_, true), Result::kSent);
  EXPECT_EQ(batch_.packets()[0].borrowed, nullptr);
  EXPECT_TRUE(carries(packet(0), kMtu, kMtu));
  EXPECT_TRUE(packet(0).bth.ack_request);
  emission_.release(batch_);
}

TEST_F(EmissionTest, WhatIsBorrowedStaysPinnedUntilTheBatchIsGone) {
  form().borrowed_least = wire::Path::Packing::kBorrowedLeast;
  send(WorkOpcode::kWrite, {sge(0, 3 * kMtu)});
  batch_.bring_in_all();
  EXPECT_TRUE(registry_.deregister(key_).ok()) << "it would wait for ever";
  EXPECT_TRUE(carries(packet(2), 2 * kMtu, kMtu));
}

TEST_F(EmissionTest, AFullBatchTakesNoMore) {
  for (std::size_t i = 0; i < wire::TxBatch::kMaxPackets; ++i) {
    ASSERT_NE(batch_.begin(16), nullptr);
    batch_.commit(16, endpoint_.destination);
  }
  send(WorkOpcode::kSend, {sge(0, 8)});
  EXPECT_EQ(result_, Result::kBatchFull);
  EXPECT_EQ(psns_.in_flight(), 0u);
}

TEST_F(EmissionTest, BuffersThatCannotBeReadAreRefusedWithTheReason) {
  queue::Sge beyond = sge(0, 16);
  beyond.address += bytes_.size();
  send(WorkOpcode::kSend, {sge(0, 8), beyond});
  EXPECT_EQ(result_, Result::kRefused);
  EXPECT_TRUE(batch_.empty());
  EXPECT_NE(std::string(endpoint_.reason.text()).find("sg_list[1]"), std::string::npos)
      << endpoint_.reason.text();
}

}  // namespace
}  // namespace verbena::requester::testing
