// SPDX-License-Identifier: BSD-2-Clause
// Datagrams: which ones are accepted, and what is written before their data.
#include "verbena/responder/datagrams.hpp"

#include "receiver.hpp"
#include "verbena/wire/grh.hpp"

namespace verbena::responder::testing {
namespace {

using queue::Status;

class DatagramsTest : public ReceiverTest {
 protected:
  static constexpr std::uint32_t kQkey = 0x11111111;

  DatagramsTest() {
    endpoint_.transport = Transport::kUd;
    endpoint_.qkey = kQkey;
    datagram_.source_lid = 5;
    datagram_.has_grh = false;
  }
  bool take(std::size_t length, std::uint32_t qkey = kQkey) {
    wire::PacketHeaders headers;
    headers.deth.qkey = qkey;
    headers.deth.source_qp = Qpn(0x008002);
    const std::vector<std::uint8_t> data(length, 0xee);
    const Packet p = packet(wire::Opcode::kUdSendOnly, data, headers);
    datagram_.bytes = p.bytes;
    std::optional<ReceiveInUse::Failed> failed;
    take_datagram(endpoint_, receive_, p.view, datagram_, failed);
    return !failed;
  }
  std::uint64_t dropped(DropReason reason) const { return drops_.read(reason); }

  wire::RxDatagram datagram_;
  ReceiveInUse receive_{endpoint_};
};

TEST_F(DatagramsTest, TheDataStandBehindTheRoomOfAGrh) {
  post(11, {sge(0, 100)});
  EXPECT_TRUE(take(20));
  const auto all = completions();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].byte_length, 60u);
  EXPECT_EQ(all[0].source_qpn, 0x8002u);
  EXPECT_EQ(all[0].source_lid, 5u);
  EXPECT_EQ(all[0].flags, 0u) << "no GRH came";
  EXPECT_EQ(bytes_[40], 0xee);
  EXPECT_EQ(bytes_[59], 0xee);
}

TEST_F(DatagramsTest, AGrhIsThere) {
  post(11, {sge(0, 100)});
  datagram_.has_grh = true;
  datagram_.hop_limit = 9;
  EXPECT_TRUE(take(4));
  EXPECT_EQ(completions().at(0).flags, queue::kHasGrh);
  EXPECT_EQ(bytes_[0] >> 4, 6) << "the version";
  EXPECT_EQ(bytes_[7], 9);
}

TEST_F(DatagramsTest, AWrongQkeyIsDroppedAndExplained) {
  post(11, {sge(0, 100)});
  EXPECT_TRUE(take(4, kQkey + 1));
  EXPECT_EQ(dropped(DropReason::kBadQkey), 1u);
  EXPECT_NE(sink_.said.find("its Q_Key 0x11111112 is not 0x11111111"), std::string::npos);
  EXPECT_TRUE(completions().empty());
}

TEST_F(DatagramsTest, WhatIsLongerThanTheMtuIsDropped) {
  post(11, {sge(0, 1000)});
  EXPECT_TRUE(take(kMtu + 4));
  EXPECT_EQ(dropped(DropReason::kMalformed), 1u);
}

TEST_F(DatagramsTest, WithoutAReceiveItIsDropped) {
  EXPECT_TRUE(take(4));
  EXPECT_EQ(dropped(DropReason::kNoReceive), 1u);
  EXPECT_NE(sink_.said.find("no receive is posted"), std::string::npos);
}

TEST_F(DatagramsTest, AReceiveThatIsTooSmallFails) {
  post(11, {sge(0, 43)});
  EXPECT_TRUE(take(4));
  EXPECT_EQ(completions().at(0).status, Status::kLocalLength);
  EXPECT_TRUE(endpoint_.failure.has_value());
}

TEST_F(DatagramsTest, MemoryThatIsNotRegisteredEndsTheQueuePair) {
  post(11, {{address(0), 100, key_ + 0x100}});
  EXPECT_FALSE(take(4));
  EXPECT_EQ(completions().at(0).status, Status::kLocalProtection);
}

}  // namespace
}  // namespace verbena::responder::testing
