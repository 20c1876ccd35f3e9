// SPDX-License-Identifier: BSD-2-Clause
// Acknowledgements that are piggybacked on the packet behind them: on rings if both ends take them,
// as packets of their own otherwise, and from one buffer of UDP.
#include <sys/mman.h>

#include <tuple>

#include "link_fixture.hpp"
#include "ring_fixture.hpp"

namespace verbena::link::test {
namespace {

constexpr std::uint32_t kAnswered = 0x123456;
const Qpn kPeer(0x1001);
// A record's first word has the length. Bit 18 of the second says that there is a piggybacked ACK.
constexpr std::size_t kRecords = 4096;
constexpr std::uint64_t kHasPiggybackedAck = 1u << 18;

class PiggybackedAcksTest : public ::testing::Test {
 protected:
  ~PiggybackedAcksTest() override { ::close(fd_); }

  Bytes acknowledgement(Qpn to = kPeer) const {
    constexpr std::size_t kSize = wire::PiggybackedAck::kPacketSize;
    Bytes bytes = make_packet(to, kAnswered, kSize, wire::Opcode::kRcAcknowledge);
    aeth_.write_to(bytes.data() + wire::Bth::kSize);
    return bytes;
  }
  std::size_t put(std::initializer_list<Bytes> packets) {
    Batch batch(64 * 1024);
    for (const Bytes& bytes : packets) batch.add(bytes, to(own_address(), true));
    return writer_.put(batch.get(), 0, packets.size());
  }
  // Takes all packets. Returns each one's length and whether it had a piggybacked acknowledgement,
  // which must be the one of acknowledgement().
  std::vector<std::pair<std::size_t, bool>> take_all() {
    std::vector<std::pair<std::size_t, bool>> all;
    wire::RxDatagram fields;
    while (reader_.take(fields)) {
      all.emplace_back(fields.bytes.size(), fields.piggybacked_ack.has_value());
      if (!fields.piggybacked_ack) continue;
      EXPECT_EQ(*fields.piggybacked_ack, (wire::PiggybackedAck{aeth_, Psn(kAnswered)}));
    }
    return all;
  }

  const wire::Aeth aeth_ = wire::Aeth::ack(3, 77);
  int fd_ = SharedRing::create(kSmall).value();
  RingWriter writer_{SharedRing::map(fd_).value()};
  RingReader reader_{SharedRing::map(fd_).value()};
};

using All = std::vector<std::pair<std::size_t, bool>>;

TEST_F(PiggybackedAcksTest, ComeWithThePacketBehindThem) {
  for (const std::size_t length : {16u, 36u, 40u, 44u, 48u, 52u, 108u, 4112u}) {
    const Bytes data = make_packet(kPeer, 1, length);
    EXPECT_EQ(put({acknowledgement(), data}), 2u);
    EXPECT_EQ(take_all(), (All{{length, true}})) << length;
  }
}

TEST_F(PiggybackedAcksTest, AreThoseOfTheNextPacket) {
  const Bytes data = make_packet(kPeer, 1, 20);
  EXPECT_EQ(put({data, acknowledgement(), data, data}), 4u);
  EXPECT_EQ(take_all(), (All{{20, false}, {20, true}, {20, false}}));
}

TEST_F(PiggybackedAcksTest, AreOrdinaryWhereNoPacketIsBehindThem) {
  constexpr std::size_t kSize = wire::PiggybackedAck::kPacketSize;
  EXPECT_EQ(put({acknowledgement()}), 1u);
  EXPECT_EQ(take_all(), (All{{kSize, false}}));
  // This acknowledgement is for another queue pair.
  EXPECT_EQ(put({acknowledgement(Qpn(0x1002)), make_packet(kPeer, 1, 20)}), 2u);
  EXPECT_EQ(take_all(), (All{{kSize, false}, {20, false}}));
}

TEST_F(PiggybackedAcksTest, AreOrdinaryWhereTheReaderWantsOrdinaryPackets) {
  reader_.ring().set_packs(Packs::kNothing);
  EXPECT_EQ(put({acknowledgement(), make_packet(kPeer, 1, 20)}), 2u);
  EXPECT_EQ(take_all(), (All{{wire::PiggybackedAck::kPacketSize, false}, {20, false}}));
  reader_.ring().set_packs(Packs::kMerged);
  EXPECT_EQ(put({acknowledgement(), make_packet(kPeer, 1, 20)}), 2u);
  EXPECT_EQ(take_all(), (All{{20, true}}));
}

// Each lap ends elsewhere, and sometimes has no room for the acknowledgement behind its packet.
TEST_F(PiggybackedAcksTest, SurviveTheEndOfTheRing) {
  for (std::uint32_t n = 0; n < 5000; ++n) {
    const std::size_t length = 12 + 4 * (n * 7 % 300);
    ASSERT_EQ(put({acknowledgement(), make_packet(kPeer, n, length)}), 2u);
    ASSERT_EQ(take_all(), (All{{length, true}})) << n;
  }
}

TEST_F(PiggybackedAcksTest, WaitWithTheirPacketWhereThereIsNoRoom) {
  const Bytes data = make_packet(kPeer, 1, 4096);
  std::size_t pairs = 0;
  while (put({acknowledgement(), data}) == 2) ++pairs;
  EXPECT_EQ(pairs, kSmall / 4160);
  EXPECT_EQ(take_all(), All(pairs, {4096, true}));
}

// A record ends exactly at the ring's end, so that its piggybacked ACK would be behind the end.
TEST_F(PiggybackedAcksTest, BehindTheEndBreakTheRing) {
  constexpr std::size_t kLength = 48;  // fills a line
  for (std::size_t n = 1; n < kSmall / 64; ++n) {
    ASSERT_EQ(put({make_packet(kPeer, 1, kLength)}), 1u);
    ASSERT_EQ(take_all(), (All{{kLength, false}}));
  }
  ASSERT_EQ(put({make_packet(kPeer, 1, kLength)}), 1u);
  auto* memory = static_cast<std::uint8_t*>(
      ::mmap(nullptr, kRecords + kSmall, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
  ASSERT_NE(memory, MAP_FAILED);
  std::uint64_t fields = 0;
  std::uint8_t* const word = memory + kRecords + kSmall - 64 + 8;
  std::memcpy(&fields, word, sizeof fields);
  fields |= kHasPiggybackedAck;
  std::memcpy(word, &fields, sizeof fields);
  ::munmap(memory, kRecords + kSmall);
  EXPECT_EQ(take_all(), All{});
  EXPECT_TRUE(reader_.is_broken());
}

// --- out of one buffer of UDP ---

class Taken final : public RxSink {
 public:
  void on_datagram(const wire::RxDatagram& d) noexcept override { add(1, d); }
  void on_run(const wire::RxRun& run) noexcept override {
    add(run.count, run.head);
    for (std::uint32_t i = 1; i < run.count; ++i) EXPECT_FALSE(run.at(i).piggybacked_ack);
  }
  // How many packets came together, the first one's length, and whether it had a piggybacked ACK.
  std::vector<std::tuple<std::uint32_t, std::size_t, bool>> all;

 private:
  void add(std::uint32_t count, const wire::RxDatagram& head) {
    all.emplace_back(count, head.bytes.size(), head.piggybacked_ack.has_value());
  }
};

TEST(UdpPiggybackedAcks, AreThoseOfWhatIsBehindThemInTheBuffer) {
  constexpr std::size_t kSize = wire::PiggybackedAck::kPacketSize;
  SlotGroup group_a = open_group(own_address(0)), group_b = open_group(own_address(1));
  Node a(group_a), b(group_b);
  const auto acknowledges = [&](Qpn to) {
    Bytes bytes = make_packet(to, kAnswered, kSize, wire::Opcode::kRcAcknowledge);
    wire::Aeth::ack(3, 77).write_to(bytes.data() + wire::Bth::kSize);
    return bytes;
  };
  const auto data = [&](std::size_t length) { return make_packet(b.qp(1), 1, length); };
  const auto taken = [&](std::initializer_list<Bytes> packets) {
    Batch batch;
    for (const Bytes& bytes : packets) batch.add(bytes, to(own_address(1)));
    EXPECT_EQ(a.link->send(batch.get(), a.qp(1)), packets.size());
    Taken sink;
    EXPECT_EQ(receive_count(*b.link, sink, packets.size()), packets.size());
    return sink.all;
  };
  using Datagrams = decltype(Taken::all);
  EXPECT_EQ(taken({acknowledges(b.qp(1)), data(48)}), (Datagrams{{1, 48, true}}));
  EXPECT_EQ(taken({acknowledges(b.qp(1)), data(48), data(48), data(20)}),
            (Datagrams{{3, 48, true}}));
  EXPECT_EQ(taken({acknowledges(b.qp(1))}), (Datagrams{{1, kSize, false}}));
  // An acknowledgement behind a packet stays a packet of its own.
  EXPECT_EQ(taken({data(48), acknowledges(b.qp(1))}), (Datagrams{{2, 48, false}}));
  EXPECT_EQ(taken({data(48), acknowledges(b.qp(1)), data(100), data(48)}),
            (Datagrams{{2, 48, false}, {2, 100, false}}));
}

}  // namespace
}  // namespace verbena::link::test
