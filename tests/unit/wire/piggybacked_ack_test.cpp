// SPDX-License-Identifier: BSD-2-Clause
// Tests which packets may be piggybacked on the packet behind them. Their word keeps all of their
// content.
#include "verbena/wire/piggybacked_ack.hpp"

#include <gtest/gtest.h>

#include <array>

namespace verbena::wire {
namespace {

using Packet = std::array<std::uint8_t, PiggybackedAck::kPacketSize>;

class PiggybackedAckTest : public ::testing::Test {
 protected:
  static Bth header(Opcode opcode, std::uint32_t psn) {
    Bth bth;
    bth.opcode = static_cast<std::uint8_t>(opcode);
    bth.dest_qp = Qpn(0x4711);
    bth.psn = Psn(psn);
    return bth;
  }
  static Packet packet(const Bth& bth, Aeth aeth = {}) {
    Packet bytes{};
    bth.write_to(bytes.data());
    aeth.write_to(bytes.data() + Bth::kSize);
    return bytes;
  }
  std::optional<PiggybackedAck> piggybacked(const Bth& bth) {
    return PiggybackedAck::of(packet(bth, kAck), carrier_);
  }

  static constexpr Aeth kAck = Aeth::ack(kCreditsUnlimited, 0xabcdef);
  const Packet carrier_ = packet(header(Opcode::kRcSendOnly, 7));
  Bth bth_ = header(Opcode::kRcAcknowledge, 0xfedcba);
};

TEST_F(PiggybackedAckTest, SaysWhatThePacketSaid) {
  const auto ack = piggybacked(bth_);
  ASSERT_TRUE(ack);
  EXPECT_EQ(*ack, (PiggybackedAck{kAck, Psn(0xfedcba)}));
  EXPECT_EQ(PiggybackedAck::of_word(ack->word()), *ack);
}

TEST_F(PiggybackedAckTest, IsThePacketAgainWhereNoneIsPiggybacked) {
  bth_.pkey = 0x8123;
  bth_.migreq = true;
  Bth behind = header(Opcode::kRcSendOnly, 7);
  behind.pkey = bth_.pkey;
  behind.migreq = true;
  behind.solicited = behind.ack_request = true;
  const Packet carrier = packet(behind);
  const auto ack = PiggybackedAck::of(packet(bth_, kAck), carrier);
  ASSERT_TRUE(ack);
  Packet again{};
  ack->write_packet(carrier.data(), again.data());
  EXPECT_EQ(again, packet(bth_, kAck));
}

TEST_F(PiggybackedAckTest, IsANakToo) {
  const Aeth nak = Aeth::nak(NakCode::kRemoteAccess, 1);
  const auto ack = PiggybackedAck::of(packet(bth_, nak), carrier_);
  ASSERT_TRUE(ack);
  EXPECT_EQ(PiggybackedAck::of_word(ack->word()).aeth, nak);
}

TEST_F(PiggybackedAckTest, IsAnAcknowledgementOfAReliableConnection) {
  for (const Opcode other : {Opcode::kRcSendOnly, Opcode::kRcReadResponseOnly,
                             Opcode::kXrcAcknowledge, Opcode::kUdSendOnly}) {
    bth_.opcode = static_cast<std::uint8_t>(other);
    EXPECT_FALSE(piggybacked(bth_)) << int{bth_.opcode};
  }
}

TEST_F(PiggybackedAckTest, HasTheHeaderOfItsCarrierApartFromWhatItSays) {
  Bth other = bth_;
  other.dest_qp = Qpn(0x4712);
  EXPECT_FALSE(piggybacked(other));
  other = bth_;
  other.pkey = 0x7fff;
  EXPECT_FALSE(piggybacked(other));
  other = bth_;
  other.migreq = true;
  EXPECT_FALSE(piggybacked(other));
}

// Anything else that the packet says would be lost.
TEST_F(PiggybackedAckTest, SaysNothingElse) {
  const auto refuses = [&](auto change) {
    Bth other = bth_;
    change(other);
    return !piggybacked(other).has_value();
  };
  EXPECT_TRUE(refuses([](Bth& b) { b.solicited = true; }));
  EXPECT_TRUE(refuses([](Bth& b) { b.pad = 1; }));
  EXPECT_TRUE(refuses([](Bth& b) { b.version = 1; }));
  EXPECT_TRUE(refuses([](Bth& b) { b.fecn = true; }));
  EXPECT_TRUE(refuses([](Bth& b) { b.becn = true; }));
  EXPECT_TRUE(refuses([](Bth& b) { b.ack_request = true; }));
}

TEST_F(PiggybackedAckTest, IsAWholePacket) {
  const Packet bytes = packet(bth_, kAck);
  EXPECT_FALSE(PiggybackedAck::of(std::span(bytes).first(Bth::kSize), carrier_));
  std::array<std::uint8_t, PiggybackedAck::kPacketSize + 4> longer{};
  std::copy(bytes.begin(), bytes.end(), longer.begin());
  EXPECT_FALSE(PiggybackedAck::of(longer, carrier_));
}

// A peer that can write into a ring may write this word.
TEST_F(PiggybackedAckTest, OfAnyWordIsWithinItsBits) {
  const PiggybackedAck ack = PiggybackedAck::of_word(~std::uint64_t{0});
  EXPECT_EQ(ack.aeth.msn, kMask24);
  EXPECT_EQ(ack.psn.value(), kMask24);
}

}  // namespace
}  // namespace verbena::wire
