// SPDX-License-Identifier: BSD-2-Clause
// Every CM message: each field alone comes back as it was written and touches no other bit, the
// offsets are those of the specification, and only 256 bytes of the right class are parsed.
#include "verbena/cm/mad.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "verbena/base/random.hpp"

namespace verbena::cm {
namespace {

template <typename M>
std::vector<Field> fields_of() {
  std::vector<Field> all;
  M message;
  M::visit(message, [&](auto&, const Field& f) { all.push_back(f); });
  return all;
}

template <typename M>
class MessageTest : public testing::Test {};

using AllMessages = testing::Types<Req, Mra, Rej, Rep, Rtu, Dreq, Drep, SidrReq, SidrRep, Lap, Apr>;
TYPED_TEST_SUITE(MessageTest, AllMessages);

TYPED_TEST(MessageTest, RandomBytesSurviveParsingAndWritingInEveryField) {
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    MadBytes noise{};
    for (std::uint8_t& b : noise) b = static_cast<std::uint8_t>(random.next());
    TypeParam message;
    TypeParam::visit(message, FieldReader(std::span(noise).subspan(kMadHeaderSize)));
    const Mad mad{random.next(), static_cast<std::uint32_t>(random.next()), message};
    const MadBytes bytes = write_mad(mad);
    const std::optional<Mad> back = parse_mad(bytes);
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(*back, mad);
  }
}

TYPED_TEST(MessageTest, FieldsDoNotOverlapAndEndInsideTheDatagram) {
  std::set<std::size_t> taken;
  for (const Field& f : fields_of<TypeParam>()) {
    for (std::size_t bit = f.first_bit(); bit < f.first_bit() + f.width; ++bit) {
      EXPECT_TRUE(taken.insert(bit).second) << f.name << " overlaps at bit " << bit;
      EXPECT_LT(bit, (kMadSize - kMadHeaderSize) * 8) << f.name;
    }
  }
  // The private data always runs to the last byte.
  EXPECT_EQ(*taken.rbegin(), (kMadSize - kMadHeaderSize) * 8 - 1);
}

TYPED_TEST(MessageTest, EachFieldAloneChangesOnlyItsBits) {
  const MadBytes empty = write_mad(Mad{0, 0, TypeParam{}});
  for (const Field& f : fields_of<TypeParam>()) {
    MadBytes bytes = empty;
    for (std::size_t bit = f.first_bit(); bit < f.first_bit() + f.width; ++bit) {
      const std::size_t at = kMadHeaderSize * 8 + bit;
      bytes[at / 8] = static_cast<std::uint8_t>(bytes[at / 8] ^ (1u << (7 - at % 8)));
    }
    const std::optional<Mad> mad = parse_mad(bytes);
    ASSERT_TRUE(mad.has_value()) << f.name;
    EXPECT_EQ(write_mad(*mad), bytes) << f.name;
  }
}

TYPED_TEST(MessageTest, EveryOtherLengthIsRefused) {
  const MadBytes bytes = write_mad(Mad{1, 2, TypeParam{}});
  for (std::size_t n = 0; n < kMadSize; ++n) {
    EXPECT_FALSE(parse_mad(std::span(bytes).first(n)).has_value()) << n;
  }
}

TEST(MadHeaderTest, AnotherClassVersionMethodOrAttributeIsRefused) {
  const MadBytes good = write_mad(Mad{1, 2, Rtu{}});
  for (const std::size_t at : {0u, 1u, 2u, 3u, 16u, 17u}) {
    MadBytes bad = good;
    bad[at] ^= 0x40;
    EXPECT_FALSE(parse_mad(bad).has_value()) << at;
  }
}

// A REQ laid out by hand from the tables of IBTA Vol 1, 12.6.5.
TEST(GoldenTest, RequestStandsWhereTheSpecificationPutsIt) {
  Req req;
  req.local_comm_id = 0x01020304;
  req.ece_vendor_id = 0x15b3aa;
  req.service_id = 0x0000000001061234;
  req.local_ca_guid = 0x0256520100112233;
  req.local_qpn = 0xabcdef;
  req.responder_resources = 4;
  req.initiator_depth = 5;
  req.remote_response_timeout = 20;
  req.service_type = ServiceType::kExtended;
  req.flow_control = 1;
  req.starting_psn = 0x123456;
  req.local_response_timeout = 19;
  req.retry_count = 7;
  req.pkey = 0xffff;
  req.path_mtu = 5;
  req.rnr_retry_count = 6;
  req.max_cm_retries = 15;
  req.srq = 1;
  req.extended_type = kExtendedXrc;
  req.primary.local_lid = 1;
  req.primary.remote_lid = 2;
  req.primary.flow_label = 0xfffff;
  req.primary.packet_rate = 3;
  req.primary.sl = 0xa;
  req.primary.subnet_local = 1;
  req.primary.local_ack_timeout = 14;
  req.private_data[0] = 0x77;
  const MadBytes b = write_mad(Mad{0x1122334455667788, 0x9, req});
  const auto at = [&](std::size_t offset, std::vector<int> want) {
    std::vector<int> got(b.begin() + static_cast<std::ptrdiff_t>(offset),
                         b.begin() + static_cast<std::ptrdiff_t>(offset + want.size()));
    EXPECT_EQ(got, want) << "at " << offset;
  };
  at(0, {1, 7, 2, 3, 0, 0, 0, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88});
  at(16, {0, 0x10, 0, 0, 0, 0, 0, 9});
  at(24, {1, 2, 3, 4, 0, 0x15, 0xb3, 0xaa, 0, 0, 0, 0, 1, 6, 0x12, 0x34});
  at(24 + 32, {0xab, 0xcd, 0xef, 4, 0, 0, 0, 5, 0, 0, 0, 20 << 3 | 3 << 1 | 1});
  at(24 + 44, {0x12, 0x34, 0x56, 19 << 3 | 7, 0xff, 0xff, 5 << 4 | 6, 15 << 4 | 1 << 3 | 1});
  at(24 + 52, {0, 1, 0, 2});
  at(24 + 88, {0xff, 0xff, 0xf0, 3, 0, 0, 0xa << 4 | 1 << 3, 14 << 3});
  at(24 + 140, {0x77});
}

TEST(EceTest, VendorIdIsPutTogetherFromItsThreePlaces) {
  Rep rep;
  rep.set_ece_vendor_id(0x15b3aa);
  const MadBytes b = write_mad(Mad{0, 0, rep});
  EXPECT_EQ(b[24 + 15], 0x15);
  EXPECT_EQ(b[24 + 19], 0xb3);
  EXPECT_EQ(b[24 + 23], 0xaa);
  EXPECT_EQ(rep.ece_vendor_id(), 0x15b3aau);
}

}  // namespace
}  // namespace verbena::cm
