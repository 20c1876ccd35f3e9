// SPDX-License-Identifier: BSD-2-Clause
// Each header as bytes that were written by hand from the field tables of the specification (IBTA
// Vol 1, 8.3 and chapter 9; annexes A14, A17, A19). Each field is also tested at its limits.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "golden_packets.hpp"
#include "verbena/base/random.hpp"
#include "verbena/wire/grh.hpp"

namespace verbena {
namespace {

using namespace wire;

template <typename Header>
std::string written(const Header& header) {
  std::vector<std::uint8_t> bytes(Header::kSize);
  header.write_to(bytes.data());
  return golden::to_hex(bytes);
}
template <typename Header>
void expect_bytes(const Header& header, const std::string& hex) {
  EXPECT_EQ(written(header), hex);
  const auto bytes = golden::from_hex(hex);
  ASSERT_EQ(bytes.size(), Header::kSize);
  EXPECT_EQ(Header::read_from(bytes.data()), header);
}

TEST(Formats, BthHasEveryFieldInItsPlace) {
  expect_bytes(Bth{.opcode = 0x0a, .pkey = 0xffff, .dest_qp = Qpn(0x123456), .psn = Psn(0xabcdef)},
               "0a00ffff"
               "00123456"
               "00abcdef");
  expect_bytes(Bth{.opcode = 0xff, .solicited = true, .pkey = 0},
               "ff800000"
               "00000000"
               "00000000");
  expect_bytes(Bth{.migreq = true, .pkey = 0},
               "00400000"
               "00000000"
               "00000000");
  expect_bytes(Bth{.pad = 3, .pkey = 0},
               "00300000"
               "00000000"
               "00000000");
  expect_bytes(Bth{.version = 15, .pkey = 0},
               "000f0000"
               "00000000"
               "00000000");
  expect_bytes(Bth{.pkey = 0x8001},
               "00008001"
               "00000000"
               "00000000");
  expect_bytes(Bth{.pkey = 0, .fecn = true},
               "00000000"
               "80000000"
               "00000000");
  expect_bytes(Bth{.pkey = 0, .becn = true},
               "00000000"
               "40000000"
               "00000000");
  expect_bytes(Bth{.pkey = 0, .dest_qp = Qpn(0xffffff)},
               "00000000"
               "00ffffff"
               "00000000");
  expect_bytes(Bth{.pkey = 0, .ack_request = true},
               "00000000"
               "00000000"
               "80000000");
  expect_bytes(Bth{.pkey = 0, .psn = Psn(0xffffff)},
               "00000000"
               "00000000"
               "00ffffff");
}

TEST(Formats, BthIgnoresReservedBits) {
  const auto bytes = golden::from_hex(
      "0a00ffff"
      "3f123456"
      "7fabcdef");
  const Bth meant{.opcode = 0x0a, .pkey = 0xffff, .dest_qp = Qpn(0x123456), .psn = Psn(0xabcdef)};
  EXPECT_EQ(Bth::read_from(bytes.data()), meant);
}

TEST(Formats, BthViewNeedsTwelveBytes) {
  const std::vector<std::uint8_t> bytes(Bth::kSize);
  EXPECT_FALSE(BthView::parse(std::span(bytes).first(Bth::kSize - 1)));
  EXPECT_TRUE(BthView::parse(bytes));
}

TEST(Formats, ExtensionHeaders) {
  expect_bytes(Reth{0x0102030405060708, 0x11121314, 0x21222324},
               "0102030405060708"
               "11121314"
               "21222324");
  expect_bytes(AtomicEth{0x0102030405060708, 0x11121314, 0x2122232425262728, 0x3132333435363738},
               "0102030405060708"
               "11121314"
               "2122232425262728"
               "3132333435363738");
  expect_bytes(AtomicAckEth{0x0102030405060708}, "0102030405060708");
  expect_bytes(Deth{0x80010000, Qpn(0xabcdef)},
               "80010000"
               "00abcdef");
  expect_bytes(XrcEth{0xabcdef}, "00abcdef");
  expect_bytes(Ieth{0x01020304}, "01020304");
  expect_bytes(Feth{kFlushGlobalVisibility, 0}, "00000001");
  expect_bytes(Feth{kFlushPersistence, 0}, "00000002");
  expect_bytes(Feth{0, static_cast<std::uint8_t>(FlushSelectivity::kWholeRegion)}, "00000010");
  expect_bytes(Feth{15, 3}, "0000003f");
}

TEST(Formats, ImmediateKeepsTheBytesThatItWasGiven) {
  const std::array<std::uint8_t, 4> given{1, 2, 3, 4};
  ImmDt immediate;
  std::memcpy(&immediate.data, given.data(), sizeof given);
  expect_bytes(immediate, "01020304");
}

TEST(Formats, AethCarriesKindAndValue) {
  expect_bytes(Aeth::ack(kCreditsUnlimited, 0x010203), "1f010203");
  expect_bytes(Aeth::ack(0, 0xffffff), "00ffffff");
  expect_bytes(Aeth::rnr_nak(14, 5), "2e000005");
  expect_bytes(Aeth::nak(NakCode::kPsnSequence, 5), "60000005");
  expect_bytes(Aeth::nak(NakCode::kInvalidRequest, 5), "61000005");
  expect_bytes(Aeth::nak(NakCode::kRemoteAccess, 5), "62000005");
  expect_bytes(Aeth::nak(NakCode::kRemoteOperational, 5), "63000005");
  expect_bytes(Aeth::nak(NakCode::kInvalidRd, 5), "64000005");
  EXPECT_EQ(Aeth::rnr_nak(14, 5).kind(), AethKind::kRnrNak);
  EXPECT_EQ(Aeth::rnr_nak(14, 5).value(), 14);
  EXPECT_EQ((Aeth{0x40, 0}).kind(), AethKind::kReserved);
  EXPECT_EQ((Aeth{0x80, 0}).kind(), AethKind::kReserved);
  EXPECT_EQ((Aeth{0xe1, 0}).kind(), AethKind::kReserved);
}

TEST(Formats, Grh) {
  Grh grh{.version = 6,
          .traffic_class = 0xab,
          .flow_label = 0xcdef1,
          .payload_length = 0x0102,
          .next_header = Grh::kNextHeaderBth,
          .hop_limit = 0x40,
          .source = Gid::link_local(0x0102030405060708),
          .destination = Gid::link_local(0x1112131415161718)};
  expect_bytes(grh,
               "6abcdef1"
               "0102"
               "1b"
               "40"
               "fe800000000000000102030405060708"
               "fe800000000000001112131415161718");
}

// A value that is wider than its field must not change the neighbouring fields.
TEST(Formats, FieldsAreCutToTheirWidth) {
  EXPECT_EQ(written(XrcEth{0xffabcdef}), "00abcdef");
  EXPECT_EQ(written(Aeth{0x1f, 0xff010203}), "1f010203");
  EXPECT_EQ(written(Feth{0xff, 0xff}), "0000003f");
  EXPECT_EQ(written(Bth{.pad = 0xff, .version = 0, .pkey = 0}),
            "00300000"
            "00000000"
            "00000000");
}

TEST(Formats, RandomValuesComeBack) {
  Random random(7);
  for (int i = 0; i < 1000; ++i) {
    std::array<std::uint8_t, 40> bytes;
    for (auto& b : bytes) b = static_cast<std::uint8_t>(random.next());
    const auto there_and_back = [&bytes](auto header) {
      using Header = decltype(header);
      header = Header::read_from(bytes.data());
      std::array<std::uint8_t, Header::kSize> out;
      header.write_to(out.data());
      EXPECT_EQ(Header::read_from(out.data()), header);
    };
    there_and_back(Bth{});
    there_and_back(Reth{});
    there_and_back(AtomicEth{});
    there_and_back(AtomicAckEth{});
    there_and_back(Aeth{});
    there_and_back(Deth{});
    there_and_back(XrcEth{});
    there_and_back(ImmDt{});
    there_and_back(Ieth{});
    there_and_back(Feth{});
    there_and_back(Grh{});
  }
}

}  // namespace
}  // namespace verbena
