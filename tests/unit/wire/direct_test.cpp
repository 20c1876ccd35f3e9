// The stand-in for a payload: what is written is read back, and nothing else is taken for one.
#include "verbena/wire/direct.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace verbena::wire {
namespace {

const OpcodeRow& kWriteRow = row_of(Opcode::kRcWriteOnly);

DirectPayload sample(std::uint32_t ranges) {
  DirectPayload direct;
  direct.psns = 17;
  for (std::uint32_t i = 0; i < ranges; ++i) {
    EXPECT_TRUE(direct.add({0x7f0000001000u + i * 0x10000u, 1000u + i}));
  }
  return direct;
}

std::vector<std::uint8_t> bytes_of(const DirectPayload& direct) {
  std::vector<std::uint8_t> bytes(direct.size());
  direct.write_to(bytes.data());
  return bytes;
}

TEST(DirectPayload, IsReadAsItWasWritten) {
  for (std::uint32_t n = 1; n <= DirectPayload::kRangesMax; ++n) {
    const DirectPayload written = sample(n);
    const auto read = DirectPayload::parse(kWriteRow, bytes_of(written));
    ASSERT_TRUE(read) << n;
    EXPECT_EQ(read->psns, 17u);
    EXPECT_EQ(read->count, n);
    EXPECT_EQ(read->length, written.length);
    for (std::uint32_t i = 0; i < n; ++i) {
      EXPECT_EQ(read->ranges[i].address, written.ranges[i].address);
      EXPECT_EQ(read->ranges[i].length, written.ranges[i].length);
    }
  }
}

TEST(DirectPayload, HoldsSoManyRangesAndNoMore) {
  DirectPayload direct = sample(DirectPayload::kRangesMax);
  EXPECT_FALSE(direct.add({1, 1}));
  direct.witness = {1, 1};
  EXPECT_EQ(direct.size(), DirectPayload::kSizeMax);
}

TEST(DirectPayload, CountsWhatANetworkWouldCarry) {
  DirectPayload direct;
  direct.psns = 3;
  direct.add({0x1000, 2 * 4096 + 5});
  EXPECT_EQ(direct.wire_bytes(kWriteRow), 28u + 2 * 12 + 2 * 4096 + 8);
}

TEST(DirectPayload, CountsTheHeadersOfAnswers) {
  const auto wire_bytes = [](Opcode opcode, std::uint32_t psns) {
    DirectPayload direct;
    direct.psns = psns;
    direct.add({0x1000, 4096});
    return direct.wire_bytes(row_of(opcode)) - 4096;
  };
  // BTH and AETH in the first and the last, BTH between them.
  EXPECT_EQ(wire_bytes(Opcode::kRcReadResponseOnly, 4), 16 + 12 + 12 + 16u);
  EXPECT_EQ(wire_bytes(Opcode::kRcReadResponseFirst, 4), 16 + 12 + 12 + 12u);
  EXPECT_EQ(wire_bytes(Opcode::kRcReadResponseMiddle, 4), 12 + 12 + 12 + 12u);
  EXPECT_EQ(wire_bytes(Opcode::kRcReadResponseLast, 4), 12 + 12 + 12 + 16u);
  EXPECT_EQ(wire_bytes(Opcode::kRcReadResponseOnly, 1), 16u);
}

TEST(DirectPayload, OfAnAnswerHasAWitnessAndNoOtherHas) {
  const OpcodeRow& answer = row_of(Opcode::kRcReadResponseOnly);
  DirectPayload direct = sample(2);
  EXPECT_FALSE(DirectPayload::parse(answer, bytes_of(direct)));
  direct.witness = {0x7f0000200000u, 0xfedcba9876543210u};
  const auto read = DirectPayload::parse(answer, bytes_of(direct));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->witness.address, 0x7f0000200000u);
  EXPECT_EQ(read->witness.value, 0xfedcba9876543210u);
  EXPECT_EQ(read->ranges[1].address, direct.ranges[1].address);
  EXPECT_FALSE(DirectPayload::parse(kWriteRow, bytes_of(direct)));
  auto nowhere = bytes_of(direct);
  std::fill_n(nowhere.end() - 16, 8, std::uint8_t{0});
  EXPECT_FALSE(DirectPayload::parse(answer, nowhere));
}

TEST(DirectPayload, OfAnotherLengthIsNone) {
  const auto bytes = bytes_of(sample(3));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(DirectPayload::parse(kWriteRow, std::span(bytes).first(length))) << length;
  }
  auto longer = bytes;
  longer.resize(bytes.size() + 16);
  EXPECT_FALSE(DirectPayload::parse(kWriteRow, longer));
}

TEST(DirectPayload, ThatMakesNoSenseIsNone) {
  const auto refuses = [](auto&& spoil) {
    DirectPayload direct = sample(2);
    spoil(direct);
    return !DirectPayload::parse(kWriteRow, bytes_of(direct));
  };
  EXPECT_FALSE(refuses([](DirectPayload&) {}));
  EXPECT_TRUE(refuses([](DirectPayload& d) { d.psns = 0; }));
  EXPECT_TRUE(refuses([](DirectPayload& d) { d.psns = DirectPayload::kPsnsMax + 1; }));
  EXPECT_TRUE(refuses([](DirectPayload& d) { d.psns = ~0u; }));
  EXPECT_TRUE(refuses([](DirectPayload& d) { d.count = 0; }));
  EXPECT_TRUE(refuses([](DirectPayload& d) { d.ranges[0].length = 0; }));
  EXPECT_TRUE(refuses([](DirectPayload& d) { d.ranges[1].length = ~std::uint64_t{0}; }));
  EXPECT_TRUE(refuses([](DirectPayload& d) { d.ranges[1].length = DirectPayload::kLengthMax; }));
  EXPECT_TRUE(refuses([](DirectPayload& d) { d.ranges[0].address = ~std::uint64_t{0} - 998; }));
  EXPECT_FALSE(refuses([](DirectPayload& d) { d.ranges[0].address = ~std::uint64_t{0} - 999; }));
}

TEST(DirectPayload, BelongsToReliableSendsAndWritesOnly) {
  const auto bytes = bytes_of(sample(1));
  for (std::size_t opcode = 0; opcode < kOpcodeTable.size(); ++opcode) {
    const OpcodeRow& row = row_of(static_cast<std::uint8_t>(opcode));
    if (!row.valid) continue;
    const bool expected =
        row.transport == WireTransport::kRc &&
        (row.operation == Operation::kSend || row.operation == Operation::kWrite);
    EXPECT_EQ(DirectPayload::parse(row, bytes).has_value(), expected) << row.name;
  }
}

}  // namespace
}  // namespace verbena::wire
