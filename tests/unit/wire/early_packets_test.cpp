// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/wire/early_packets.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace verbena::wire {
namespace {

constexpr std::uint32_t kMtu = 1024;

std::vector<std::uint8_t> packet_with(Psn psn, std::size_t length = kMtu) {
  PacketHeaders headers;
  headers.bth.psn = psn;
  const auto opcode = static_cast<std::uint8_t>(Opcode::kRcWriteMiddle);
  std::vector<std::uint8_t> bytes(kMaxHeaders + length);
  const std::size_t begin = write_headers(opcode, headers, bytes.data());
  bytes.resize(begin + length);
  std::memset(bytes.data() + begin, static_cast<int>(psn.value() & 0xff), length);
  return bytes;
}

bool keep(EarlyPackets& early, Psn psn, Psn due, std::uint32_t mtu = kMtu) {
  const auto bytes = packet_with(psn);
  return early.keep(*parse_packet(bytes), due, mtu);
}

TEST(EarlyPackets, ComeBackWhenTheyAreDueAsTheyWere) {
  EarlyPackets early;
  const Psn due(0xfffffe);  // wraps
  ASSERT_TRUE(keep(early, due + 3, due));
  ASSERT_TRUE(keep(early, due + 1, due));
  EXPECT_EQ(early.first(), due + 1);
  EXPECT_FALSE(early.take(due));
  for (const std::uint32_t ahead : {1u, 3u}) {
    const auto packet = early.take(due + ahead);
    ASSERT_TRUE(packet);
    EXPECT_EQ(packet->bth.psn, due + ahead);
    ASSERT_EQ(packet->payload.size(), kMtu);
    EXPECT_EQ(packet->payload.back(), (due + ahead).value() & 0xff);
  }
  EXPECT_TRUE(early.is_empty());
}

TEST(EarlyPackets, ThatComeTwiceAreKeptOnce) {
  EarlyPackets early;
  const Psn due(10);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(keep(early, due + 1, due));
  EXPECT_FALSE(early.tells_of_loss());
  EXPECT_TRUE(early.take(due + 1));
  EXPECT_TRUE(early.is_empty());
}

TEST(EarlyPackets, TellOfALossWhenSeveralAreBehindIt) {
  EarlyPackets early;
  const Psn due(10);
  for (std::uint32_t ahead = 1; ahead <= 8 && !early.tells_of_loss(); ++ahead) {
    ASSERT_TRUE(keep(early, due + ahead, due));
  }
  EXPECT_TRUE(early.tells_of_loss());
}

// The packets at these PSNs came in another way, and much later the PSNs stand for other packets.
TEST(EarlyPackets, AreForgottenWhenTheyAreNotDueAnyMore) {
  EarlyPackets early;
  const Psn due(10);
  ASSERT_TRUE(keep(early, due + 1, due));
  ASSERT_TRUE(keep(early, due + 100, due + 50));
  EXPECT_EQ(early.first(), due + 100);
  EXPECT_FALSE(early.take(due + 100 + EarlyPackets::kMost));
  EXPECT_TRUE(early.is_empty());
}

// A sender that has no more in flight loses one packet and sends one again.
TEST(EarlyPackets, AllThatASenderMayHaveInFlightAreKept) {
  for (const std::uint32_t mtu : {256u, 512u, 1024u, 2048u, 4096u}) {
    EarlyPackets early;
    const Psn due(10);
    const std::uint32_t most = EarlyPackets::most(kMaxHeaders + mtu);
    for (std::uint32_t ahead = 1; ahead < most; ++ahead) {
      const auto bytes = packet_with(due + ahead, mtu);
      ASSERT_TRUE(early.keep(*parse_packet(bytes), due, mtu)) << mtu << " " << ahead;
    }
    EXPECT_EQ(early.take(due + (most - 1))->payload.size(), mtu);
  }
}

TEST(EarlyPackets, TooFarAheadTooLongOrJointAreNotKept) {
  EarlyPackets early;
  const Psn due(10);
  EXPECT_FALSE(keep(early, due + EarlyPackets::kMost, due));
  EXPECT_TRUE(keep(early, due + (EarlyPackets::kMost - 1), due));
  EXPECT_FALSE(keep(early, due + 1, due, kMtu / 2));
  const auto bytes = packet_with(due + 2);
  PacketView merged = *parse_packet(bytes);
  merged.psns = 2;
  EXPECT_FALSE(early.keep(merged, due, kMtu));
}

}  // namespace
}  // namespace verbena::wire
