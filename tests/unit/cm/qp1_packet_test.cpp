// SPDX-License-Identifier: BSD-2-Clause
// A management datagram on the wire: BTH and DETH are as a kernel sends them.
#include "verbena/cm_service/qp1_packet.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace verbena::cm_service {
namespace {

struct Packet {
  std::vector<std::uint8_t> bytes = std::vector<std::uint8_t>(1024);
  cm::MadBytes mad = cm::write_mad({7, 8, cm::Rtu{.local_comm_id = 1, .remote_comm_id = 2}});
  std::vector<std::uint8_t> written;

  Packet() {
    wire::TxBatch batch(bytes);
    write_qp1_packet(batch, mad, {.address = *IpAddress::parse("127.1.0.1")}, Psn(0x123456));
    const auto view = batch.bytes_of(batch.packets()[0]);
    written.assign(view.begin(), view.end());
    EXPECT_EQ(batch.destination(batch.packets()[0]).address, *IpAddress::parse("127.1.0.1"));
  }
};

TEST(Qp1PacketTest, HeadersAreThoseOfASendOnlyBetweenManagementQueuePairs) {
  const Packet p;
  ASSERT_EQ(p.written.size(), kQp1PacketSize);
  const std::vector<std::uint8_t> head(p.written.begin(), p.written.begin() + 20);
  EXPECT_EQ(head, (std::vector<std::uint8_t>{0x64, 0,    0xff, 0xff, 0, 0, 0, 1, 0, 0x12,
                                             0x34, 0x56, 0x80, 0x01, 0, 0, 0, 0, 0, 1}));
}

TEST(Qp1PacketTest, WhatIsWrittenIsTakenAndNothingElse) {
  const Packet p;
  const auto mad = mad_of_packet(p.written);
  ASSERT_TRUE(mad.has_value());
  EXPECT_TRUE(std::equal(mad->begin(), mad->end(), p.mad.begin(), p.mad.end()));
  for (std::size_t n = 0; n < kQp1PacketSize; ++n) {
    EXPECT_FALSE(mad_of_packet(std::span(p.written).first(n)).has_value()) << n;
  }
  // Changes opcode, destination QP, Q_Key and source QP.
  for (const std::size_t at : {0u, 5u, 7u, 12u, 15u, 17u, 19u}) {
    std::vector<std::uint8_t> other = p.written;
    other[at] ^= 0x02;
    EXPECT_FALSE(mad_of_packet(other).has_value()) << at;
  }
}

}  // namespace
}  // namespace verbena::cm_service
