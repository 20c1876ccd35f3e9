// SPDX-License-Identifier: BSD-2-Clause
// Packets have names that are the same in every run: windows, repetitions, random PSNs and the
// order of acknowledgements do not change which packets are lost.
#include "verbena/fault/flow.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "verbena/wire/aeth.hpp"
#include "verbena/wire/bth.hpp"
#include "verbena/wire/bytes.hpp"
#include "verbena/wire/opcode.hpp"

namespace verbena::fault {
namespace {

using wire::Opcode;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint64_t kProgram = 77;
constexpr Settings kSettings{.drop_ppm = 100'000, .seed = 5};
const wire::Origin kOrigin{1, 1, Psn(0x123456), Psn(0xfffff0)};

Bytes packet(Opcode opcode, Psn psn, std::size_t length = 64) {
  Bytes bytes(length);
  wire::Bth bth;
  bth.opcode = static_cast<std::uint8_t>(opcode);
  bth.dest_qp = Qpn(0x4001);
  bth.psn = psn;
  bth.write_to(bytes.data());
  return bytes;
}
Bytes request(Psn psn) { return packet(Opcode::kRcSendOnly, psn); }
Bytes answer(Psn psn, wire::Aeth aeth) {
  Bytes bytes = packet(Opcode::kRcAcknowledge, psn, wire::Bth::kSize + wire::Aeth::kSize);
  aeth.write_to(bytes.data() + wire::Bth::kSize);
  return bytes;
}
Bytes mad(std::uint16_t attribute, std::uint64_t transaction, Psn psn) {
  Bytes bytes = packet(Opcode::kUdSendOnly, psn, 276);
  wire::Bth bth = wire::Bth::read_from(bytes.data());
  bth.dest_qp = kManagementQpn;
  bth.write_to(bytes.data());
  bytes[21] = 7;  // connection management
  bytes[23] = 3;  // Send
  wire::store_be64(bytes.data() + 28, transaction);
  wire::store_be16(bytes.data() + 36, attribute);
  return bytes;
}

// Returns how often each request is lost until all have arrived. The receiver takes them only in
// order. The sender has up to `window` of them on the way, and goes back to the first one that is
// missing. It repeats `needless` requests before that one as well.
std::map<std::uint32_t, int> losses(std::uint32_t window, std::uint32_t needless = 0) {
  Flow flow(kProgram);
  constexpr std::uint32_t kPackets = 3000;
  std::map<std::uint32_t, int> lost;
  std::uint32_t expected = 0;
  while (expected < kPackets) {
    const std::uint32_t first = expected - std::min(expected, needless);
    const std::uint32_t end = std::min(expected + window, kPackets);
    for (std::uint32_t n = first; n < end; ++n) {
      const auto judged = flow.judge(kSettings, kOrigin, request(kOrigin.first_request + n));
      if (judged.fate.is_lost) ++lost[n];
      if (!judged.fate.is_lost && n == expected) ++expected;
    }
  }
  return lost;
}

TEST(Flow, LosesTheSameWhateverTheWindow) {
  const auto one_at_a_time = losses(1);
  EXPECT_NEAR(static_cast<double>(one_at_a_time.size()), 300.0, 80.0);
  EXPECT_TRUE(std::ranges::any_of(one_at_a_time, [](const auto& p) { return p.second > 1; }));
  for (const std::uint32_t window : {2u, 7u, 64u, 3000u}) {
    EXPECT_EQ(losses(window), one_at_a_time) << window;
  }
}

TEST(Flow, NeedlessRepetitionsChangeNothing) { EXPECT_EQ(losses(16, 5), losses(16)); }

std::vector<std::uint32_t> lost_of(Flow flow, const wire::Origin& origin, std::uint32_t packets) {
  std::vector<std::uint32_t> lost;
  for (std::uint32_t n = 0; n < packets; ++n) {
    if (flow.judge(kSettings, origin, request(origin.first_request + n)).fate.is_lost) {
      lost.push_back(n);
    }
  }
  return lost;
}

TEST(Flow, CountsFromTheFirstPsn) {
  const auto base = lost_of(Flow(kProgram), kOrigin, 500);
  wire::Origin other = kOrigin;
  other.first_request = Psn(0xffff80);  // wraps
  EXPECT_EQ(lost_of(Flow(kProgram), other, 500), base);
}

TEST(Flow, WhoSendsCounts) {
  const auto base = lost_of(Flow(kProgram), kOrigin, 500);
  wire::Origin second = kOrigin, again = kOrigin;
  second.created = 2;
  again.lives = 2;
  EXPECT_NE(lost_of(Flow(kProgram), second, 500), base);
  EXPECT_NE(lost_of(Flow(kProgram), again, 500), base);
  EXPECT_NE(lost_of(Flow(kProgram + 1), kOrigin, 500), base);
}

TEST(Flow, NumbersGoOnWhereThePsnBeginsAnew) {
  Flow flow(kProgram);
  std::uint64_t n = 0;
  for (; n <= kMask24 + 10; n += 1000) {
    const Psn psn = kOrigin.first_request + static_cast<std::uint32_t>(n & kMask24);
    ASSERT_EQ(flow.judge(kSettings, kOrigin, request(psn)).name.number, n);
  }
}

// This happens before the first request is answered, and it may never be answered.
TEST(Flow, ARepetitionIsKnownByItsNumber) {
  Flow flow(kProgram);
  const auto number = [&](std::uint32_t n) {
    return flow.judge(kSettings, kOrigin, request(kOrigin.first_request + n)).name.number;
  };
  EXPECT_EQ(number(40), 40u);
  EXPECT_EQ(number(3), 3u);
  EXPECT_EQ(number(41), 41u);
}

TEST(Flow, AResponseIsCalledByWhatItSays) {
  Flow flow(kProgram);
  const auto name = [&](const Bytes& bytes) { return flow.judge(kSettings, kOrigin, bytes).name; };
  const Psn psn = kOrigin.first_response + 20;
  const PacketName ack = name(answer(psn, wire::Aeth::ack(3, 21)));
  EXPECT_EQ(ack.direction, Direction::kResponse);
  EXPECT_EQ(ack.number, 20u);
  EXPECT_EQ(name(answer(psn, wire::Aeth::ack(31, 22))), ack) << "credits and the MSN do not count";
  const PacketName rnr = name(answer(psn, wire::Aeth::rnr_nak(3, 21)));
  const PacketName sequence = name(answer(psn, wire::Aeth::nak(wire::NakCode::kPsnSequence, 21)));
  const PacketName access = name(answer(psn, wire::Aeth::nak(wire::NakCode::kRemoteAccess, 21)));
  const PacketName data = name(packet(Opcode::kRcReadResponseFirst, psn));
  EXPECT_EQ(name(packet(Opcode::kRcReadResponseOnly, psn)), data)
      << "which it is depends on where the READ was begun anew";
  const std::vector<PacketName> all{ack, rnr, sequence, access, data};
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(all[i], all[j]) << i << " " << j;
  }
}

TEST(Flow, AManagementDatagramIsCalledByItsTransaction) {
  constexpr std::uint16_t kReq = 0x10, kRep = 0x13;
  Flow flow(kProgram);
  const auto name = [&](std::uint16_t attribute, std::uint64_t transaction, std::uint32_t psn) {
    return flow.judge(kSettings, {}, mad(attribute, transaction, Psn(psn))).name;
  };
  const PacketName first = name(kReq, 0xabcdef, 1000);
  EXPECT_EQ(first.direction, Direction::kManagement);
  EXPECT_EQ(first.number, 0u);
  const PacketName second = name(kReq, 0x1234, 1001);
  EXPECT_EQ(second.number, 1u);
  const PacketName answered = name(kRep, 0xabcdef, 1002);
  EXPECT_EQ(answered.number, 0u);
  EXPECT_NE(answered.says, first.says);
  EXPECT_EQ(name(kReq, 0xabcdef, 1003), first) << "sent again";
}

TEST(Flow, WhatIsDamagedIsJudgedAnew) {
  Flow flow(kProgram);
  constexpr Settings kDamage{.corrupt_ppm = 300'000, .seed = 5};
  int rounds = 0;
  for (std::uint32_t n = 0; n < 200; ++n) {
    const Bytes bytes = request(kOrigin.first_request + n);
    int tries = 1;
    while (!flow.judge(kDamage, kOrigin, bytes).fate.arrives()) ASSERT_LT(++tries, 50);
    rounds = std::max(rounds, tries);
    EXPECT_TRUE(flow.judge(kDamage, kOrigin, bytes).fate.arrives()) << n;
  }
  EXPECT_GT(rounds, 2);
}

}  // namespace
}  // namespace verbena::fault
