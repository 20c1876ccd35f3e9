// SPDX-License-Identifier: BSD-2-Clause
// Where coalesced buffers divide: after a while nobody is asked, and nothing is lost for it.
#include <algorithm>
#include <array>
#include <optional>

#include "link_fixture.hpp"
#include "verbena/base/random.hpp"

namespace verbena::link::test {
namespace {

// A WRITE of eight bytes with the acknowledgement of another, say.
constexpr std::array<std::size_t, 2> kUsual{36, 16};
// Buffers until nobody is asked, and a few more.
constexpr int kUntilSure = 80;

class Division : public ::testing::Test {
 protected:
  explicit Division(const UdpOptions& options = {}) : options_(options) {}
  // Sends packets of these lengths and sees each of them arrive, whole.
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
  void pass(std::initializer_list<std::size_t> lengths) {
    pass(std::span(lengths.begin(), lengths.size()));
  }
  void expect(const std::vector<Bytes>& sent) {
    Collector sink;
    ASSERT_EQ(receive_count(*b_.link, sink, sent.size()), sent.size());
    ASSERT_EQ(sink.arrived.size(), sent.size());
    for (std::size_t i = 0; i < sent.size(); ++i) EXPECT_EQ(sink.arrived[i].bytes, sent[i]) << i;
    EXPECT_EQ(b_.drops.total(), dropped_);
  }
  void make_sure() {
    for (int i = 0; i < kUntilSure; ++i) ASSERT_NO_FATAL_FAILURE(pass(kUsual));
    ASSERT_FALSE(asks());
  }
  // Whether the kernel is asked about the next buffer.
  bool asks() {
    const std::uint64_t before = asked();
    pass(kUsual);
    return asked() != before;
  }
  std::uint64_t asked() { return b_.link->statistics().asked_reads.read(); }

  SlotGroup group_a_ = open_group(own_address(0));
  SlotGroup group_b_ = open_group(own_address(1));
  UdpOptions options_;
  Node a_{group_a_, options_};
  Node b_{group_b_, options_};
  std::uint32_t next_ = 0;
  std::uint64_t dropped_ = 0;
};

TEST_F(Division, IsAskedForUntilItIsAlwaysTheSame) {
  EXPECT_TRUE(asks());
  make_sure();
  const std::uint64_t before = asked();
  for (int i = 0; i < 200; ++i) ASSERT_NO_FATAL_FAILURE(pass(kUsual));
  // Parts of it are like it.
  for (int i = 0; i < 200; ++i) ASSERT_NO_FATAL_FAILURE(pass({36, 36, 36, 16}));
  for (int i = 0; i < 200; ++i) ASSERT_NO_FATAL_FAILURE(pass({36}));
  EXPECT_EQ(asked(), before);
}

const std::vector<std::vector<std::size_t>> kOthers{{40},
                                                    {4124},
                                                    {40, 16},
                                                    {4108, 16},
                                                    {1036, 1036, 1036, 1036, 16},
                                                    {16, 16, 12},
                                                    std::vector<std::size_t>(64, 44),
                                                    std::vector<std::size_t>(15, 4108)};

// Nobody can say how a bundle divides. What comes from a foreign address, the kernel could.
class DivisionOfSegments : public Division {
 protected:
  DivisionOfSegments() : Division({.grh_from_port = false}) {}
};

TEST_F(Division, OfABundleIsFoundAndNotAskedFor) {
  make_sure();
  for (const auto& lengths : kOthers) {
    ASSERT_NO_FATAL_FAILURE(pass(lengths));
    EXPECT_FALSE(asks());
  }
}

TEST_F(DivisionOfSegments, IsFoundWhereItIsAnother) {
  for (const auto& lengths : kOthers) {
    make_sure();
    ASSERT_NO_FATAL_FAILURE(pass(lengths));
    EXPECT_TRUE(asks());
    // The longer, the more often it was in vain.
    for (int i = 0; i < 1 << 16 && asks(); ++i) {
    }
  }
}

// Of bundles, and (every other seed) of segments.
class AnyDivision : public Division, public ::testing::WithParamInterface<std::uint64_t> {
 protected:
  // Of all identifications, one fits a damaged packet once in 2^16 (wire/README.md).
  AnyDivision() : Division({.grh_from_port = GetParam() % 2 == 0, .ids_accepted = 128}) {}

  void add_run(std::vector<std::size_t>& lengths) {
    const std::size_t length = 12 + 4 * random_.below(500);
    lengths.insert(lengths.end(), 1 + random_.below(20), length);
    lengths.back() = 12 + 4 * random_.below(length / 4 - 2);
  }

  Random random_{GetParam()};
};

TEST_P(AnyDivision, IsTheRightOne) {
  for (int i = 0; i < 500; ++i) {
    std::vector<std::size_t> lengths(kUsual.begin(), kUsual.end());
    if (i >= kUntilSure && random_.below(40) == 0) {
      lengths.clear();
      for (std::uint64_t runs = random_.below(3) + 1; runs != 0; --runs) add_run(lengths);
    }
    ASSERT_NO_FATAL_FAILURE(pass(lengths));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, AnyDivision, ::testing::Range<std::uint64_t>(1, 41));

// A network card may put the end of one send before the beginning of the next, and foreign devices
// number as they like.
TEST_F(Division, DoesNotDependOnIdentifications) {
  using Ids = std::vector<std::uint16_t>;
  for (const Ids& ids : {Ids{61, 62, 63, 0, 1}, Ids{0x718c, 0x718d, 0x718e}, Ids{0x718c}}) {
    make_sure();
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
    EXPECT_TRUE(asks());
    while (asks()) {
    }
  }
}

TEST_F(Division, OfADamagedBufferIsNone) {
  make_sure();
  Batch batch;
  for (const std::size_t length : {1036, 1036, 1036}) {
    batch.add(make_packet(b_.qp(1), next_++, length), to(own_address(1)));
  }
  ASSERT_EQ(a_.link->send_damaged(batch.get(), a_.qp(1), Damage{8 * 600}), 3u);
  Collector sink;
  ASSERT_GE(receive_count(*b_.link, sink, 1), 1u);
  EXPECT_TRUE(sink.arrived.empty());
  EXPECT_EQ(b_.drops.read(DropReason::kBadIcrc), 1u);
  // The next ones are whole, and asked for.
  const std::uint64_t before = asked();
  Batch usual;
  usual.add(make_packet(b_.qp(1), next_++, 36), to(own_address(1)));
  ASSERT_EQ(a_.link->send(usual.get(), a_.qp(1)), 1u);
  ASSERT_EQ(receive_count(*b_.link, sink, 1), 1u);
  EXPECT_EQ(sink.arrived.size(), 1u);
  EXPECT_EQ(asked(), before + 1);
}

// Hand made, from a loopback address, so taken for one of ours: the packets of a long message.
TEST_F(Division, OfABundleSurvivesWhatIsDamagedInIt) {
  using wire::Opcode;
  const PlainSocket sender(own_address(2));
  const auto pass_message = [&](std::optional<std::size_t> damaged) {
    Bytes bundle;
    std::vector<Bytes> good;
    for (std::uint16_t i = 0; i < 10; ++i) {
      const Opcode opcode = i == 0   ? Opcode::kRcWriteFirst
                            : i == 9 ? Opcode::kRcWriteLast
                                     : Opcode::kRcWriteMiddle;
      const Bytes packet = make_packet(b_.qp(1), next_++,
                                       i == 0   ? 1052
                                       : i == 9 ? 500
                                                : 1036,
                                       opcode);
      Bytes sealed = sender.sealed(packet, own_address(1), i);
      if (i == damaged) {
        sealed[100] ^= 1;
      } else {
        good.push_back(packet);
      }
      bundle.insert(bundle.end(), sealed.begin(), sealed.end());
    }
    ASSERT_TRUE(sender.send(bundle, own_address(1)));
    Collector sink;
    ASSERT_EQ(receive_count(*b_.link, sink, 10), 10u);
    ASSERT_EQ(sink.arrived.size(), good.size());
    for (std::size_t i = 0; i < good.size(); ++i) EXPECT_EQ(sink.arrived[i].bytes, good[i]);
  };
  ASSERT_NO_FATAL_FAILURE(pass_message(std::nullopt));
  for (std::size_t damaged = 0; damaged < 10; ++damaged) {
    ASSERT_NO_FATAL_FAILURE(pass_message(damaged)) << damaged;
    EXPECT_EQ(b_.drops.read(DropReason::kBadIcrc), damaged + 1);
  }
}

// What earlier packets have left in the buffer, where one of the usual length would end, is none.
TEST_F(Division, OfADamagedPacketEndsWithIt) {
  for (int i = 0; i < kUntilSure; ++i) ASSERT_NO_FATAL_FAILURE(pass({1036, 1036}));
  for (int i = 0; i < 3; ++i) {
    Batch batch;
    batch.add(make_packet(b_.qp(1), next_++, 36), to(own_address(1)));
    ASSERT_EQ(a_.link->send_damaged(batch.get(), a_.qp(1), Damage{8 * 20}), 1u);
    Collector sink;
    ASSERT_EQ(receive_count(*b_.link, sink, 1), 1u);
    EXPECT_TRUE(sink.arrived.empty());
    EXPECT_EQ(b_.drops.total(), 1u + static_cast<unsigned>(i));
  }
}

// Cut off anywhere, damaged anywhere, while lengths are known and the buffer is full of what came
// before: nothing arrives that was not sent, and what is sent next does.
TEST_P(AnyDivision, SurvivesAnyDamage) {
  const PlainSocket stranger(own_address(2));
  std::size_t false_ones = 0;
  for (int i = 0; i < 300; ++i) {
    std::vector<std::size_t> lengths;
    for (std::uint64_t runs = random_.below(3) + 1; runs != 0; --runs) add_run(lengths);
    ASSERT_NO_FATAL_FAILURE(pass(lengths));
    std::vector<Bytes> good;
    Bytes bundle;
    for (std::uint16_t n = 0; n < lengths.size(); ++n) {
      good.push_back(make_packet(b_.qp(1), next_++, lengths[n]));
      const Bytes sealed = stranger.sealed(good.back(), own_address(1), n);
      bundle.insert(bundle.end(), sealed.begin(), sealed.end());
    }
    // Behind what steers it here.
    constexpr std::size_t kSteered = 8;
    bundle.resize(kSteered + 1 +
                  random_.below(std::min<std::size_t>(bundle.size(), 60'000) - kSteered));
    bundle[kSteered + random_.below(bundle.size() - kSteered)] ^=
        static_cast<std::uint8_t>(1 + random_.below(255));
    ASSERT_TRUE(stranger.send(bundle, own_address(1)));
    Collector sink;
    ASSERT_GE(receive_count(*b_.link, sink, 1), 1u);
    for (Arrived& packet : sink.arrived) {
      packet.bytes[4] = 0;  // the byte of congestion bits, which no ICRC covers
      if (std::find(good.begin(), good.end(), packet.bytes) == good.end()) ++false_ones;
    }
    dropped_ = b_.drops.total();
  }
  // Once in 2^25 packets one of the identifications fits even so.
  EXPECT_LE(false_ones, 1u);
}

// Of all identifications, one fits garbage once in 2^16 (wire/README.md).
class NarrowDivision : public Division {
 protected:
  NarrowDivision() : Division({.ids_accepted = 128}) {}
};

TEST_F(NarrowDivision, OfGarbageCostsNobodyAPacket) {
  make_sure();
  const PlainSocket stranger(own_address(2));
  Random random(5);
  for (int i = 0; i < 300; ++i) {
    Bytes garbage = make_packet(b_.qp(1), 0, 12 + random.below(60000));
    ASSERT_TRUE(stranger.send(garbage, own_address(1)));
    Collector nothing;
    ASSERT_EQ(receive_count(*b_.link, nothing, 1), 1u);
    EXPECT_TRUE(nothing.arrived.empty());
    Batch batch;
    for (const std::size_t length : kUsual) {
      batch.add(make_packet(b_.qp(1), next_++, length), to(own_address(1)));
    }
    ASSERT_EQ(a_.link->send(batch.get(), a_.qp(1)), kUsual.size());
    Collector sink;
    ASSERT_EQ(receive_count(*b_.link, sink, kUsual.size()), kUsual.size());
    ASSERT_EQ(sink.arrived.size(), kUsual.size());
  }
}

}  // namespace
}  // namespace verbena::link::test
