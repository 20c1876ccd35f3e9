// SPDX-License-Identifier: BSD-2-Clause
// Where buffers from a socket divide: bundles by their table, segments by the kernel's length.
#include <algorithm>
#include <optional>

#include "link_fixture.hpp"
#include "verbena/base/random.hpp"
#include "verbena/wire/bytes.hpp"

namespace verbena::link::test {
namespace {

class Division : public ::testing::Test {
 protected:
  explicit Division(const UdpOptions& options = {}) : options_(options) {}
  // Sends packets of these lengths and expects that each arrives whole.
  void pass(std::span<const std::size_t> lengths) {
    Batch batch;
    std::vector<Bytes> sent;
    for (const std::size_t length : lengths) {
      sent.push_back(make_packet(b_.qp(1), next_++, length));
      batch.add(sent.back(), to(own_address(1)));
    }
    ASSERT_EQ(a_.link->send(batch.get(), a_.qp(1)), lengths.size());
    expect(sent);
  }
  void expect(const std::vector<Bytes>& sent) {
    Collector sink;
    ASSERT_EQ(receive_count(*b_.link, sink, sent.size()), sent.size());
    ASSERT_EQ(sink.arrived.size(), sent.size());
    for (std::size_t i = 0; i < sent.size(); ++i) EXPECT_EQ(sink.arrived[i].bytes, sent[i]) << i;
    EXPECT_EQ(b_.drops.total(), dropped_);
  }
  // Builds a bundle by hand. Its source is in loopback, so the receiver takes it for one.
  Bytes bundle(const std::vector<Bytes>& packets) {
    Bytes bytes, table;
    const auto add = [&table](std::size_t number) {
      table.push_back(static_cast<std::uint8_t>(number >> 8));
      table.push_back(static_cast<std::uint8_t>(number));
    };
    for (std::uint16_t i = 0; i < packets.size(); ++i) {
      const Bytes sealed = stranger_.sealed(packets[i], own_address(1), i);
      bytes.insert(bytes.end(), sealed.begin(), sealed.end());
      add(sealed.size());
    }
    add(packets.size());
    add(0x5642);
    bytes.insert(bytes.end(), table.begin(), table.end());
    return bytes;
  }
  std::vector<Arrived> arrive(const Bytes& bytes, std::size_t pieces = 1) {
    EXPECT_TRUE(stranger_.send(bytes, own_address(1)));
    Collector sink;
    EXPECT_GE(receive_count(*b_.link, sink, pieces), pieces);
    return sink.arrived;
  }

  SlotGroup group_a_ = open_group(own_address(0));
  SlotGroup group_b_ = open_group(own_address(1));
  UdpOptions options_;
  Node a_{group_a_, options_};
  Node b_{group_b_, options_};
  const PlainSocket stranger_{own_address(2)};
  std::uint32_t next_ = 0;
  std::uint64_t dropped_ = 0;
};

const std::vector<std::vector<std::size_t>> kSome{{36, 16},
                                                  {40},
                                                  {4124},
                                                  {40, 16},
                                                  {4108, 16},
                                                  {1036, 1036, 1036, 1036, 16},
                                                  {16, 16, 12},
                                                  std::vector<std::size_t>(64, 44),
                                                  std::vector<std::size_t>(15, 4108)};

class DivisionOfSegments : public Division {
 protected:
  DivisionOfSegments() : Division({.grh_from_port = false}) {}
};

TEST_F(Division, OfABundleIsWhatItsTableSays) {
  for (const auto& lengths : kSome) ASSERT_NO_FATAL_FAILURE(pass(lengths));
}

TEST_F(DivisionOfSegments, IsWhatTheKernelSays) {
  for (const auto& lengths : kSome) ASSERT_NO_FATAL_FAILURE(pass(lengths));
}

// Divisions of bundles and (for every second seed) of segments.
class AnyDivision : public Division, public ::testing::WithParamInterface<std::uint64_t> {
 protected:
  // If all identifications were accepted, one damaged packet in 2^16 would pass (wire/README.md).
  AnyDivision() : Division({.grh_from_port = GetParam() % 2 == 0, .ids_accepted = 128}) {}

  std::vector<std::size_t> draw_lengths() {
    std::vector<std::size_t> lengths;
    for (std::uint64_t runs = random_.below(3) + 1; runs != 0; --runs) {
      const std::size_t length = 12 + 4 * random_.below(500);
      lengths.insert(lengths.end(), 1 + random_.below(20), length);
      lengths.back() = 12 + 4 * random_.below(length / 4 - 2);
    }
    return lengths;
  }

  Random random_{GetParam()};
};

TEST_P(AnyDivision, IsTheRightOne) {
  for (int i = 0; i < 200; ++i) ASSERT_NO_FATAL_FAILURE(pass(draw_lengths()));
}

INSTANTIATE_TEST_SUITE_P(Seeds, AnyDivision, ::testing::Range<std::uint64_t>(1, 21));

// A network card may merge the end of one send with the beginning of the next, and foreign devices
// choose their identifications freely.
TEST_F(Division, DoesNotDependOnIdentifications) {
  using Ids = std::vector<std::uint16_t>;
  for (const Ids& ids : {Ids{61, 62, 63, 0, 1}, Ids{0x718c, 0x718d, 0x718e}, Ids{0x718c}}) {
    const PlainSocket sender(own_address(2));
    const int size = 68;
    ASSERT_EQ(::setsockopt(sender.fd(), SOL_UDP, UDP_SEGMENT, &size, sizeof size), 0);
    Bytes buffer;
    std::vector<Bytes> sent;
    for (const std::uint16_t ip_id : ids) {
      sent.push_back(make_packet(b_.qp(1), next_++, 64));
      const Bytes sealed = sender.sealed(sent.back(), own_address(1), ip_id);
      buffer.insert(buffer.end(), sealed.begin(), sealed.end());
    }
    ASSERT_TRUE(sender.send(buffer, own_address(1)));
    ASSERT_NO_FATAL_FAILURE(expect(sent)) << ids.front();
  }
}

TEST_F(Division, OfADamagedBundleFindsNoPacket) {
  Batch batch;
  for (const std::size_t length : {1036, 1036, 1036}) {
    batch.add(make_packet(b_.qp(1), next_++, length), to(own_address(1)));
  }
  ASSERT_EQ(a_.link->send_damaged(batch.get(), a_.qp(1), Damage{8 * 600}), 3u);
  Collector sink;
  ASSERT_EQ(receive_count(*b_.link, sink, 3), 3u);
  EXPECT_TRUE(sink.arrived.empty());
  EXPECT_EQ(b_.drops.read(DropReason::kBadIcrc), 3u);
}

TEST_F(Division, OfABundleSurvivesWhatIsDamagedInIt) {
  for (std::size_t damaged = 0; damaged < 10; ++damaged) {
    std::vector<Bytes> good;
    for (std::size_t i = 0; i < 10; ++i) {
      good.push_back(make_packet(b_.qp(1), next_++, i == 0 ? 1052 : i == 9 ? 500 : 1036));
    }
    Bytes bytes = bundle(good);
    bytes[100 + 1040 * damaged] ^= 1;
    good.erase(good.begin() + static_cast<std::ptrdiff_t>(damaged));
    const auto arrived = arrive(bytes, 10);
    ASSERT_EQ(arrived.size(), good.size());
    for (std::size_t i = 0; i < good.size(); ++i) EXPECT_EQ(arrived[i].bytes, good[i]);
    EXPECT_EQ(b_.drops.read(DropReason::kBadIcrc), damaged + 1);
  }
}

// The table counts too many, none, more or fewer packets than there are, or has no mark.
TEST_F(Division, OfABundleWhoseTableIsWrongIsNone) {
  const std::vector<Bytes> packets{make_packet(b_.qp(1), 0, 64), make_packet(b_.qp(1), 1, 100)};
  const Bytes sound = bundle(packets);
  ASSERT_EQ(arrive(sound, 2).size(), 2u);
  const std::size_t size = sound.size();
  const auto arrives_with = [&](std::size_t at, std::uint16_t number) {
    Bytes bytes = sound;
    wire::store_be16(bytes.data() + at, number);
    return arrive(bytes).size();
  };
  for (const std::uint16_t count : {0, 1, 3, 64, 65, 0xffff}) {
    EXPECT_EQ(arrives_with(size - 4, count), 0u) << count;
  }
  for (const std::uint16_t length : {0, 67, 69, 0xffff}) {
    EXPECT_EQ(arrives_with(size - 8, length), 0u) << length;
  }
  EXPECT_EQ(arrives_with(size - 2, 0x5643), 0u);
  EXPECT_EQ(b_.drops.total(), 11u);
}

// The bundle is cut off or damaged anywhere, while the buffer still holds earlier bytes. A packet
// that was not sent must not arrive, and the packets that are sent next must.
TEST_P(AnyDivision, SurvivesAnyDamage) {
  std::size_t false_ones = 0;
  for (int i = 0; i < 300; ++i) {
    ASSERT_NO_FATAL_FAILURE(pass(draw_lengths()));
    std::vector<Bytes> good;
    for (const std::size_t length : draw_lengths()) {
      good.push_back(make_packet(b_.qp(1), next_++, length));
    }
    Bytes bytes = bundle(good);
    // The bytes that steer the datagram to this socket stay intact.
    constexpr std::size_t kSteered = 8;
    if (bytes.size() > 60'000 || random_.below(2) == 0) {
      bytes.resize(kSteered + 1 +
                   random_.below(std::min<std::size_t>(bytes.size(), 60'000) - kSteered));
    }
    bytes[kSteered + random_.below(bytes.size() - kSteered)] ^=
        static_cast<std::uint8_t>(1 + random_.below(255));
    for (Arrived& packet : arrive(bytes)) {
      packet.bytes[4] = 0;  // the byte of congestion bits, which no ICRC covers
      if (std::find(good.begin(), good.end(), packet.bytes) == good.end()) ++false_ones;
    }
    dropped_ = b_.drops.total();
  }
  // Even so, one of the accepted identifications fits once in 2^25 packets.
  EXPECT_LE(false_ones, 1u);
}

TEST_F(Division, OfGarbageCostsNobodyAPacket) {
  Random random(5);
  for (int i = 0; i < 300; ++i) {
    (void)arrive(make_packet(b_.qp(1), 0, 12 + random.below(60000)));
    dropped_ = b_.drops.total();
    ASSERT_NO_FATAL_FAILURE(pass(kSome.front()));
  }
}

}  // namespace
}  // namespace verbena::link::test
