// SPDX-License-Identifier: BSD-2-Clause
// Payloads that are lent to packets over UDP: sent from where they lie if their sums are known, and
// what arrives is the same, or nothing.
#include <algorithm>

#include "link_fixture.hpp"
#include "verbena/wire/crc32.hpp"

namespace verbena::link::test {
namespace {

// Packets of 4 KiB whose payloads lie elsewhere, with or without their sums.
class LentPackets {
 public:
  static constexpr std::size_t kPayload = 4096;

  // To the second node of the pair.
  LentPackets(UdpPair& pair, std::size_t count) : pair_(pair), lent_(count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      sent_.push_back(make_packet(pair.b.qp(1), i, wire::Bth::kSize + kPayload));
      batch_.add(sent_.back(), to(pair.group_b.local()));
    }
  }
  void lend(std::size_t place, bool with_sum = true) {
    const auto in_batch = payload_room(place);
    lent_[place].assign(in_batch.begin(), in_batch.end());
    std::fill(in_batch.begin(), in_batch.end(), std::uint8_t{0});
    batch_.get().lend_to(place, wire::Bth::kSize, lent_[place].data(), kPayload);
    if (!with_sum) return;
    batch_.get().note_sum_of(place, kPayload, wire::crc32(0, lent_[place].data(), kPayload));
  }
  const Bytes& lent(std::size_t place) const { return lent_[place]; }
  // As its owner may.
  void change(std::size_t place) { lent_[place].back() ^= 1; }
  bool is_left_where_it_was(std::size_t place) {
    const auto room = payload_room(place);
    return packet(place).lent == lent_[place].data() &&
           std::all_of(room.begin(), room.end(), [](std::uint8_t byte) { return byte == 0; });
  }
  void expect_arrive() {
    Collector sink;
    ASSERT_EQ(receive_count(*pair_.b.link, sink, sent_.size()), sent_.size());
    ASSERT_EQ(sink.arrived.size(), sent_.size());
    for (std::size_t i = 0; i < sent_.size(); ++i) EXPECT_EQ(sink.arrived[i].bytes, sent_[i]) << i;
    EXPECT_EQ(pair_.b.drops.total(), 0u);
  }
  wire::TxBatch& batch() { return batch_.get(); }

 private:
  const wire::TxBatch::Packet& packet(std::size_t place) { return batch_.get().packets()[place]; }
  std::span<std::uint8_t> payload_room(std::size_t place) {
    return batch_.get().sealed_room(packet(place)).subspan(wire::Bth::kSize, kPayload);
  }

  UdpPair& pair_;
  Batch batch_;
  std::vector<Bytes> sent_, lent_;
};

class LentToUdp : public testing::TestWithParam<bool> {
 protected:
  static UdpOptions options() { return GetParam() ? UdpOptions{} : kRoce; }
};

INSTANTIATE_TEST_SUITE_P(As, LentToUdp, testing::Bool(),
                         [](const auto& tested) { return tested.param ? "Bundles" : "Segments"; });

// Until the kernel has been told what the sends have in common, and after.
TEST_P(LentToUdp, PayloadsWithSumsAreSentFromWhereTheyLie) {
  UdpPair pair(options());
  for (std::uint64_t turn = 1; turn <= 40; ++turn) {
    LentPackets packets(pair, 5);
    for (const std::size_t place : {0, 1, 4}) packets.lend(place);
    ASSERT_EQ(pair.a.link->send(packets.batch(), pair.a.qp(1)), 5u);
    EXPECT_EQ(pair.a.link->send_calls(), turn);
    for (const std::size_t place : {0, 1, 4}) EXPECT_TRUE(packets.is_left_where_it_was(place));
    ASSERT_NO_FATAL_FAILURE(packets.expect_arrive());
  }
}

TEST_P(LentToUdp, ALonePacketIs) {
  UdpPair pair(options());
  LentPackets packets(pair, 1);
  packets.lend(0);
  ASSERT_EQ(pair.a.link->send(packets.batch(), pair.a.qp(1)), 1u);
  EXPECT_TRUE(packets.is_left_where_it_was(0));
  packets.expect_arrive();
}

TEST_P(LentToUdp, WithoutSumsTheyAreBroughtIn) {
  UdpPair pair(options());
  LentPackets packets(pair, 3);
  packets.lend(0, false);
  packets.lend(2);
  ASSERT_EQ(pair.a.link->send(packets.batch(), pair.a.qp(1)), 3u);
  EXPECT_EQ(packets.batch().packets()[0].lent, nullptr);
  EXPECT_TRUE(packets.is_left_where_it_was(2));
  packets.expect_arrive();
}

// Who damages one does so to bytes of the batch's: the application's stay as they are.
TEST_P(LentToUdp, DamageLeavesItsOwnersMemoryAlone) {
  UdpPair pair(options());
  LentPackets packets(pair, 1);
  packets.lend(0);
  const Bytes before = packets.lent(0);
  ASSERT_EQ(pair.a.link->send_damaged(packets.batch(), pair.a.qp(1), Damage{8 * 1000}), 1u);
  EXPECT_EQ(packets.lent(0), before);
  Collector sink;
  ASSERT_EQ(receive_count(*pair.b.link, sink, 1), 1u);
  EXPECT_TRUE(sink.arrived.empty());
}

// It goes out torn, and nobody takes it for whole.
TEST_P(LentToUdp, WhatIsChangedAfterItsSumDoesNotArrive) {
  UdpPair pair(options());
  LentPackets packets(pair, 1);
  packets.lend(0);
  packets.change(0);
  ASSERT_EQ(pair.a.link->send(packets.batch(), pair.a.qp(1)), 1u);
  Collector sink;
  ASSERT_EQ(receive_count(*pair.b.link, sink, 1), 1u);
  EXPECT_TRUE(sink.arrived.empty());
  EXPECT_EQ(pair.b.drops.total(), 1u);
}

}  // namespace
}  // namespace verbena::link::test
