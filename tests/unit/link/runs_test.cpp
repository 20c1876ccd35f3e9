// SPDX-License-Identifier: BSD-2-Clause
// Several packets at once over UDP: how they come out of one buffer, and that only runs are cut.
#include <array>
#include <thread>

#include "link_fixture.hpp"

namespace verbena::link::test {
namespace {

// Keeps packets, and which of them came together.
class Cars final : public RxSink {
 public:
  void on_datagram(const wire::RxDatagram& d) noexcept override {
    runs.push_back(1);
    take(d);
  }
  void on_run(const wire::RxRun& run) noexcept override {
    runs.push_back(run.count);
    for (std::uint32_t i = 0; i < run.count; ++i) take(run.at(i));
  }
  std::vector<std::uint32_t> runs;  // how many were together
  std::vector<Bytes> packets;

 private:
  void take(const wire::RxDatagram& d) { packets.emplace_back(d.bytes.begin(), d.bytes.end()); }
};

struct Pair {
  explicit Pair(UdpOptions options = {})
      : group_a(open_group(own_address(0))),
        group_b(open_group(own_address(1))),
        a(group_a, options),
        b(group_b, options) {}

  void send(std::span<const std::size_t> lengths, std::uint8_t traffic_class = 0) {
    Batch batch;
    wire::Destination destination = to(own_address(1));
    destination.traffic_class = traffic_class;
    for (const std::size_t length : lengths) {
      sent.push_back(make_packet(b.qp(1), static_cast<std::uint32_t>(sent.size()), length));
      batch.add(sent.back(), destination);
    }
    ASSERT_EQ(a.link->send(batch.get(), a.qp(1)), lengths.size());
  }
  void send(std::initializer_list<std::size_t> lengths, std::uint8_t traffic_class = 0) {
    send(std::span(lengths.begin(), lengths.size()), traffic_class);
  }
  void receive(Cars& sink) {
    ASSERT_EQ(receive_count(*b.link, sink, sent.size()), sent.size());
    ASSERT_EQ(sink.packets.size(), sent.size());
    for (std::size_t i = 0; i < sent.size(); ++i) ASSERT_EQ(sink.packets[i], sent[i]) << i;
    EXPECT_EQ(b.drops.total(), 0u);
    sent.clear();
  }

  SlotGroup group_a;
  SlotGroup group_b;
  Node a;
  Node b;
  std::vector<Bytes> sent;
};

TEST(UdpRun, IsWhatWasSentAtOnce) {
  Pair pair;
  pair.send({1036, 1036, 1036, 40});
  pair.send({28});
  Cars sink;
  pair.receive(sink);
  EXPECT_EQ(sink.runs, (std::vector<std::uint32_t>{4, 1}));
}

TEST(UdpRun, IsNoLongerThanTheNearestCacheHolds) {
  Pair pair;
  pair.send(std::vector<std::size_t>(15, 4108));
  Cars sink;
  pair.receive(sink);
  EXPECT_EQ(sink.runs, (std::vector<std::uint32_t>{4, 4, 4, 3}));
}

// Sends with a foreign socket, so that what is sent at once may be wrong.
void send_segmented(const PlainSocket& socket, const std::vector<Bytes>& sealed) {
  const int size = static_cast<int>(sealed.front().size());
  const int probe = IP_PMTUDISC_PROBE;
  ASSERT_EQ(::setsockopt(socket.fd(), SOL_UDP, UDP_SEGMENT, &size, sizeof size), 0);
  ASSERT_EQ(::setsockopt(socket.fd(), IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof probe), 0);
  Bytes all;
  for (const Bytes& packet : sealed) all.insert(all.end(), packet.begin(), packet.end());
  ASSERT_TRUE(socket.send(all, own_address(1)));
}

// Options of a port with foreign peers: it sends them no bundles, and gets their segments together.
constexpr UdpOptions kRoce{.grh_from_port = false};

// Eight segments of a foreign socket. One is damaged, and the last two are for another queue pair.
void receive_from_stranger(Pair& pair, Cars& sink) {
  const PlainSocket stranger(own_address(2));
  std::vector<Bytes> sealed;
  std::vector<Bytes> good;
  for (std::uint16_t i = 0; i < 8; ++i) {
    const Bytes packet = make_packet(pair.b.qp(i < 6 ? 1 : 2), i, 100);
    sealed.push_back(stranger.sealed(packet, own_address(1), i));
    if (i == 2) {
      sealed.back()[50] ^= 1;
    } else {
      good.push_back(packet);
    }
  }
  ASSERT_NO_FATAL_FAILURE(send_segmented(stranger, sealed));
  ASSERT_EQ(receive_count(*pair.b.link, sink, 8), 8u);
  EXPECT_EQ(sink.packets, good);
  EXPECT_EQ(pair.b.drops.read(DropReason::kBadIcrc), 1u);
}

TEST(UdpRun, EndsWhereAPacketIsDamagedOrForAnother) {
  Pair pair(kRoce);
  Cars sink;
  receive_from_stranger(pair, sink);
  EXPECT_EQ(sink.runs, (std::vector<std::uint32_t>{2, 3, 2}));
}

// If no foreign peer is expected, the kernel is not asked to keep segments together.
TEST(UdpRun, IsNotMadeOfAStrangersSegmentsAmongOurselves) {
  Pair pair;
  Cars sink;
  receive_from_stranger(pair, sink);
  EXPECT_EQ(sink.runs, std::vector<std::uint32_t>(7, 1));
}

// Packets that are longer or shorter than the segments before them, runs of other lengths, and
// packets with unusual header fields: each arrives as it was sent.
TEST(UdpSegments, CutNothingElse) {
  Pair pair(kRoce);
  Cars sink;
  for (int i = 0; i < 20; ++i) {
    pair.send({1036, 1036, 20});
    pair.send({4108});
    pair.send({1040});
    pair.send({28});
    pair.send({4108, 4108, 1036});
    pair.send({1036, 1036});
    pair.send({4108}, 8);
    pair.send({1036, 1036, 1036}, 8);
    if (i % 5 == 4) pair.receive(sink = {});
  }
}

// Queue pairs share one socket, and each sends packets of its own length.
TEST(UdpSegments, AreNeverThoseOfAnotherThread) {
  UdpOptions options = kRoce;
  options.tx_sockets = 1;
  Pair pair(options);
  static constexpr std::array<std::size_t, 3> kLengths{516, 260, 700};
  constexpr std::uint32_t kThreads = kLengths.size();
  constexpr std::uint32_t kRounds = 300;
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&pair, t] {
      const std::vector<std::size_t> lengths(t == 0 ? 2 : 1, kLengths[t]);
      for (std::uint32_t n = 0; n < kRounds; ++n) {
        Batch batch(4096);
        for (std::uint32_t i = 0; i < lengths.size(); ++i) {
          batch.add(make_packet(pair.b.qp(t), n, lengths[i]), to(own_address(1)));
        }
        EXPECT_EQ(pair.a.link->send(batch.get(), pair.a.qp(t)), lengths.size());
      }
    });
  }
  Cars sink;
  constexpr std::size_t kAll = kRounds * (kThreads + 1);
  EXPECT_EQ(receive_count(*pair.b.link, sink, kAll), kAll);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sink.packets.size(), kAll);
  EXPECT_EQ(pair.b.drops.total(), 0u);
  for (const Bytes& packet : sink.packets) {
    EXPECT_EQ(packet.size(), kLengths[wire::BthView(packet.data()).dest_qp().index()]);
  }
}

}  // namespace
}  // namespace verbena::link::test
