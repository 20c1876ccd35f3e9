// SPDX-License-Identifier: BSD-2-Clause
// The UDP link over real loopback sockets: a packet arrives whole, once, in order, and at the
// process of the right queue pair, whichever socket sent it.
#include "verbena/link/udp_link.hpp"

#include <algorithm>
#include <cerrno>
#include <thread>

#include "link_fixture.hpp"
#include "verbena/link/sending_socket.hpp"
#include "verbena/wire/crc32.hpp"

namespace verbena::link::test {
namespace {

// Sends packets of these lengths to one queue pair, numbered from 0, and expects them all.
void expect_round_trip(UdpPair& pair, const std::vector<std::size_t>& lengths) {
  Batch batch;
  std::vector<Bytes> sent;
  for (std::uint32_t i = 0; i < lengths.size(); ++i) {
    sent.push_back(make_packet(pair.b.qp(1), i, lengths[i]));
    batch.add(sent.back(), to(pair.group_b.local()));
  }
  ASSERT_EQ(pair.a.link->send(batch.get(), pair.a.qp(1)), lengths.size());
  Collector sink;
  ASSERT_EQ(receive_count(*pair.b.link, sink, lengths.size()), lengths.size());
  ASSERT_EQ(sink.arrived.size(), lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    EXPECT_EQ(sink.arrived[i].bytes, sent[i]) << "packet " << i;
    EXPECT_EQ(sink.arrived[i].fields.source, pair.group_a.local());
    EXPECT_EQ(sink.arrived[i].fields.destination, pair.group_b.local());
  }
  EXPECT_EQ(pair.b.drops.total(), 0u);
}

TEST(UdpLink, CarriesASinglePacket) {
  UdpPair pair;
  expect_round_trip(pair, {28});
  EXPECT_EQ(pair.a.link->statistics().send_calls.read(), 1u);
  EXPECT_EQ(pair.a.link->statistics().segmented_calls.read(), 0u);
}

TEST(UdpLink, CarriesARunInOneCall) {
  UdpPair pair(kRoce);
  std::vector<std::size_t> lengths(63, 1036);
  lengths.push_back(40);  // the last packet may be short
  expect_round_trip(pair, std::vector<std::size_t>(lengths.end() - 32, lengths.end()));
  EXPECT_EQ(pair.a.link->statistics().send_calls.read(), 1u);
  EXPECT_EQ(pair.a.link->statistics().segmented_calls.read(), 1u);
}

// The two devices belong to this emulator.
TEST(UdpLink, RunsBetweenOursAreBundles) {
  UdpPair pair;
  for (int i = 0; i < 100; ++i) ASSERT_NO_FATAL_FAILURE(expect_round_trip(pair, {36, 16}));
  ASSERT_NO_FATAL_FAILURE(expect_round_trip(pair, {4124, 4108, 16, 28, 4124}));
  EXPECT_EQ(pair.a.link->statistics().bundles.read(), 101u);
  EXPECT_EQ(pair.a.link->statistics().send_calls.read(), 101u);
  EXPECT_EQ(pair.a.link->statistics().segmented_calls.read(), 0u);
}

// Bundles fill an IP datagram, wherever messages begin or end in it.
TEST(UdpLink, BundlesAreAsLongAsADatagram) {
  UdpPair pair;
  std::vector<std::size_t> message(16, 4108);
  message[0] = 4124;
  std::vector<std::size_t> messages;
  for (int i = 0; i < 3; ++i) messages.insert(messages.end(), message.begin(), message.end());
  ASSERT_NO_FATAL_FAILURE(expect_round_trip(pair, messages));
  EXPECT_EQ(pair.a.link->statistics().bundles.read(), 4u);
  EXPECT_EQ(pair.a.link->statistics().send_calls.read(), 4u);
}

TEST(UdpLink, BundlesComeApartWhereIpFieldsAreRead) {
  UdpPair pair({.want_ip_fields = true});
  for (int i = 0; i < 100; ++i) ASSERT_NO_FATAL_FAILURE(expect_round_trip(pair, {1036, 1036, 16}));
  EXPECT_EQ(pair.a.link->statistics().bundles.read(), 100u);
}

// A device with the same address is of the same emulator; one with another may be foreign.
TEST(UdpLink, ARocePortBundlesForItsOwnAddressOnly) {
  UdpPair pair(kRoce);
  ASSERT_NO_FATAL_FAILURE(expect_round_trip(pair, {36, 16}));
  EXPECT_EQ(pair.a.link->statistics().bundles.read(), 0u);
  EXPECT_EQ(pair.a.link->statistics().segmented_calls.read(), 1u);
  Node neighbour(pair.group_a, kRoce);
  Batch batch;
  batch.add(make_packet(neighbour.qp(1), 0, 36), to(own_address(0)));
  batch.add(make_packet(neighbour.qp(1), 1, 16), to(own_address(0)));
  ASSERT_EQ(pair.a.link->send(batch.get(), pair.a.qp(1)), 2u);
  EXPECT_EQ(pair.a.link->statistics().bundles.read(), 1u);
  Collector sink;
  ASSERT_EQ(receive_count(*neighbour.link, sink, 2), 2u);
  EXPECT_EQ(sink.arrived.size(), 2u);
}

TEST(UdpLink, CarriesSixtyFourSmallPacketsInOneCall) {
  UdpPair pair;
  expect_round_trip(pair, std::vector<std::size_t>(64, 24));
  EXPECT_EQ(pair.a.link->statistics().send_calls.read(), 1u);
}

// An IP datagram holds at most fifteen packets of 4 KiB.
TEST(UdpLink, CutsLongRunsAtTheKernelsLimit) {
  UdpPair pair(kRoce);
  expect_round_trip(pair, std::vector<std::size_t>(40, 4096 + 28));
  EXPECT_EQ(pair.a.link->statistics().send_calls.read(), 3u);
}

TEST(UdpLink, CarriesMixedLengthsInOrder) {
  UdpPair pair;
  expect_round_trip(pair, {12,   16,   1036, 1036, 1036, 20, 20,   4124, 4124, 12,  2060, 2060,
                           2056, 1036, 16,   16,   16,   16, 4124, 4124, 4124, 500, 504,  12});
}

// An IPv6 header is longer. This sends the longest bundle, which a short packet fills up.
TEST(UdpLink, CarriesIpv6) {
  const IpAddress loopback = IpAddress::parse("::1").value();
  const UdpOptions options{.port = own_port()};
  SlotGroup group = open_group(loopback, options.port);
  Node a(group, options);
  Node b(group, options);
  Batch batch;
  std::vector<Bytes> sent;
  std::size_t bytes = 0;
  constexpr std::size_t kMost = wire::TxBatch::kRunBytes - wire::TxBatch::kRoomBehind;
  while (bytes < kMost) {
    const std::size_t left = kMost - bytes;
    const std::size_t sealed = std::min<std::size_t>(left, sent.empty() ? 1056 : 1040);
    bytes += sealed;
    sent.push_back(
        make_packet(b.qp(3), static_cast<std::uint32_t>(sent.size()), sealed - wire::kIcrcSize));
    batch.add(sent.back(), to(loopback));
  }
  ASSERT_EQ(a.link->send(batch.get(), a.qp(1)), sent.size());
  EXPECT_EQ(a.link->statistics().send_calls.read(), 1u);
  Collector sink;
  ASSERT_EQ(receive_count(*b.link, sink, sent.size()), sent.size());
  ASSERT_EQ(sink.arrived.size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) EXPECT_EQ(sink.arrived[i].bytes, sent[i]) << i;
  EXPECT_EQ(sink.arrived[0].fields.source, loopback);
}

// The kernel steers a segmented buffer as a whole, by its first packet.
TEST(UdpLink, NeverSegmentsPacketsOfTwoQueuePairsTogether) {
  SlotGroup group_a = open_group(own_address(0));
  SlotGroup group_b = open_group(own_address(1));
  Node a(group_a);
  Node first(group_b);
  Node second(group_b);
  Batch batch;
  for (std::uint32_t i = 0; i < 60; ++i) {
    const Node& node = i % 4 < 2 ? first : second;
    batch.add(make_packet(node.qp(1), i, 100), to(own_address(1)));
  }
  ASSERT_EQ(a.link->send(batch.get(), a.qp(1)), 60u);
  for (Node* node : {&first, &second}) {
    Collector sink;
    ASSERT_EQ(receive_count(*node->link, sink, 30), 30u);
    for (const Arrived& packet : sink.arrived) EXPECT_EQ(packet.dest_qp(), node->qp(1));
  }
}

TEST(UdpLink, TellsWhetherThereIsAGrh) {
  UdpPair pair;
  Batch batch;
  batch.add(make_packet(pair.b.qp(1), 0, 16), to(own_address(1), true));
  batch.add(make_packet(pair.b.qp(1), 1, 16), to(own_address(1), false));
  batch.add(make_packet(pair.b.qp(1), 2, 16), to(own_address(1), false));
  ASSERT_EQ(pair.a.link->send(batch.get(), pair.a.qp(1)), 3u);
  Collector sink;
  ASSERT_EQ(receive_count(*pair.b.link, sink, 3), 3u);
  for (const Arrived& packet : sink.arrived) {
    EXPECT_EQ(packet.fields.has_grh, packet.psn() == 0);
  }
}

TEST(UdpLink, OnARocePortThereIsAlwaysAGrh) {
  UdpPair pair(kRoce);
  const PlainSocket even_or_odd[] = {PlainSocket(own_address(2)), PlainSocket(own_address(2))};
  for (const PlainSocket& s : even_or_odd) {
    ASSERT_TRUE(s.send(s.sealed(make_packet(pair.b.qp(1), 0, 16), own_address(1)), own_address(1)));
  }
  Collector sink;
  ASSERT_EQ(receive_count(*pair.b.link, sink, 2), 2u);
  for (const Arrived& packet : sink.arrived) EXPECT_TRUE(packet.fields.has_grh);
}

// A foreign adapter chooses its IP identifications freely, and no UDP socket shows them.
TEST(UdpLink, AcceptsAForeignSendersIdentification) {
  UdpPair pair;
  const PlainSocket sender(own_address(2));
  for (const std::uint16_t ip_id : {0x718c, 1, 0xffff, 127, 128}) {
    const Bytes packet = make_packet(pair.b.qp(1), ip_id, 1036);
    ASSERT_TRUE(sender.send(sender.sealed(packet, own_address(1), ip_id), own_address(1)));
  }
  Collector sink;
  ASSERT_EQ(receive_count(*pair.b.link, sink, 5), 5u);
  ASSERT_EQ(sink.arrived.size(), 5u);
  EXPECT_EQ(sink.arrived[0].bytes, make_packet(pair.b.qp(1), 0x718c, 1036));
  EXPECT_EQ(pair.b.link->statistics().foreign_ids.read(), 5u);
}

TEST(UdpLink, AcceptsOnlyOursWhereThereAreNoForeigners) {
  UdpPair pair({.ids_accepted = 128});
  const PlainSocket sender(own_address(2));
  for (const std::uint16_t ip_id : {0, 127, 128, 0x718c}) {
    const Bytes packet = make_packet(pair.b.qp(1), ip_id, 64);
    ASSERT_TRUE(sender.send(sender.sealed(packet, own_address(1), ip_id), own_address(1)));
  }
  Collector sink;
  ASSERT_EQ(receive_count(*pair.b.link, sink, 4), 4u);
  EXPECT_EQ(sink.arrived.size(), 2u);
  EXPECT_EQ(pair.b.drops.read(DropReason::kBadIcrc), 2u);
}

TEST(UdpLink, DropsAndCountsWhatIsDamagedOrTooShort) {
  UdpPair pair;
  const PlainSocket sender(own_address(2));
  Bytes packet = sender.sealed(make_packet(pair.b.qp(1), 0, 64), own_address(1));
  packet[20] = static_cast<std::uint8_t>(packet[20] ^ 0x10);
  packet[40] = static_cast<std::uint8_t>(packet[40] ^ 0x01);
  ASSERT_TRUE(sender.send(packet, own_address(1)));
  ASSERT_TRUE(sender.send(std::span(packet).first(15), own_address(1)));
  Collector sink;
  ASSERT_EQ(receive_count(*pair.b.link, sink, 2), 2u);
  EXPECT_TRUE(sink.arrived.empty());
  EXPECT_EQ(pair.b.drops.read(DropReason::kBadIcrc), 1u);
  EXPECT_EQ(pair.b.drops.read(DropReason::kTooShort), 1u);
}

TEST(UdpLink, TheReceiverNoticesEveryDamage) {
  UdpPair pair({.ids_accepted = 128});
  constexpr std::uint32_t kBits = (44 + wire::kIcrcSize) * 8;
  std::uint32_t sent = 0;
  for (std::uint32_t bit = 0; bit < kBits; ++bit) {
    // Damage in the destination QPN may lead to another process.
    if (bit / 8 >= 5 && bit / 8 <= 7) continue;
    Batch batch;
    batch.add(make_packet(pair.b.qp(1), bit, 44), to(own_address(1)));
    ASSERT_EQ(pair.a.link->send_damaged(batch.get(), pair.a.qp(1), Damage{bit + 7 * kBits}), 1u);
    ++sent;
    if (bit / 8 == 4) --sent;  // the damage moved on into the destination QPN
  }
  Collector sink;
  // Packets whose damage moved on may arrive here or not. The others surely do.
  ASSERT_GE(receive_count(*pair.b.link, sink, sent), sent);
  EXPECT_TRUE(sink.arrived.empty());
  EXPECT_GE(pair.b.drops.read(DropReason::kBadIcrc), sent);
}

TEST(UdpLink, CarriesTrafficClassAndHopLimit) {
  UdpPair pair({.want_ip_fields = true});
  Batch batch;
  wire::Destination special = to(own_address(1));
  special.traffic_class = 0x6a;
  special.hop_limit = 17;
  batch.add(make_packet(pair.b.qp(1), 0, 64), special);
  batch.add(make_packet(pair.b.qp(1), 1, 64), special);
  batch.add(make_packet(pair.b.qp(1), 2, 64), to(own_address(1)));
  ASSERT_EQ(pair.a.link->send(batch.get(), pair.a.qp(1)), 3u);
  Collector sink;
  ASSERT_EQ(receive_count(*pair.b.link, sink, 3), 3u);
  ASSERT_EQ(sink.arrived.size(), 3u);
  for (const std::size_t i : {0u, 1u}) {
    EXPECT_EQ(sink.arrived[i].fields.traffic_class, 0x6a);
    EXPECT_EQ(sink.arrived[i].fields.hop_limit, 17);
  }
  EXPECT_EQ(sink.arrived[2].fields.traffic_class, 0);
  EXPECT_EQ(sink.arrived[2].fields.hop_limit, 64);
}

TEST(UdpLink, TellsTheDestinationOnAWildcardSocket) {
  const UdpOptions options{.port = own_port()};
  const IpAddress any = IpAddress::v4(0);
  const PlainSocket receiver(any, options.port);
  ASSERT_TRUE(receiver.bound());
  DropCounters drops;
  auto link = std::move(UdpLink::open(::dup(receiver.fd()), any, options, drops)).value();
  const PlainSocket sender(own_address(2));
  const Bytes packet = make_packet(Qpn(1), 0, 64);
  const IpAddress target = own_address(3);
  ASSERT_TRUE(sender.send(sender.sealed(packet, target, 0, options.port), target, options.port));
  Collector sink;
  ASSERT_EQ(receive_count(*link, sink, 1), 1u);
  ASSERT_EQ(sink.arrived.size(), 1u);
  EXPECT_EQ(sink.arrived[0].fields.destination, target);
}

TEST(UdpLink, CountsAsTakenWhatNoRouteLeadsTo) {
  UdpPair pair;
  Batch batch;
  batch.add(make_packet(pair.b.qp(1), 0, 64), to(IpAddress::parse("255.255.255.255").value()));
  batch.add(make_packet(pair.b.qp(1), 1, 64), to(IpAddress::parse("::1").value()));
  batch.add(make_packet(pair.b.qp(1), 2, 64), to(own_address(1)));
  EXPECT_EQ(pair.a.link->send(batch.get(), pair.a.qp(1)), 3u);
  EXPECT_EQ(pair.a.link->statistics().unreachable.read(), 2u);
  Collector sink;
  EXPECT_EQ(receive_count(*pair.b.link, sink, 1), 1u);
}

TEST(UdpLink, HoldsAsManyPacketsAsItSays) {
  UdpPair pair;
  for (const std::size_t length : {24u, 268u, 1036u, 4108u}) {
    const std::uint32_t capacity = pair.b.link->capacity_packets(length);
    ASSERT_GT(capacity, 10u);
    for (std::uint32_t i = 0; i < capacity; ++i) {
      Batch batch(8192);
      batch.add(make_packet(pair.b.qp(1), i, length), to(own_address(1)));
      ASSERT_EQ(pair.a.link->send(batch.get(), pair.a.qp(1)), 1u);
    }
    Collector sink;
    ASSERT_EQ(receive_count(*pair.b.link, sink, capacity), capacity) << length;
    EXPECT_EQ(sink.arrived.back().psn(), capacity - 1);
  }
}

// A connected socket of the group would attract the packets of all other processes.
TEST(UdpLink, LeavesTheReceivingSocketUnconnected) {
  SlotGroup group = open_group(own_address(0));
  Node a(group);
  Node b(group);
  Node c(group);
  Node* const all[] = {&a, &b, &c};
  for (int round = 0; round < 3; ++round) {
    for (Node* from : all) {
      for (Node* target : all) {
        Batch batch;
        batch.add(make_packet(target->qp(1), 0, 64), to(group.local()));
        ASSERT_EQ(from->link->send(batch.get(), from->qp(1)), 1u);
      }
    }
    for (Node* node : all) {
      Collector sink;
      EXPECT_EQ(receive_count(*node->link, sink, 3), 3u);
      for (const Arrived& packet : sink.arrived) EXPECT_EQ(packet.dest_qp(), node->qp(1));
      sockaddr_storage peer{};
      socklen_t size = sizeof peer;
      EXPECT_EQ(::getpeername(node->link->wait_fd(), reinterpret_cast<sockaddr*>(&peer), &size),
                -1);
      EXPECT_EQ(errno, ENOTCONN);
    }
  }
}

TEST(UdpLink, SendsFromManyThreads) {
  UdpPair pair;
  constexpr std::uint32_t kThreads = 4;
  constexpr std::uint32_t kBatches = 10;
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&pair, t] {
      for (std::uint32_t n = 0; n < kBatches; ++n) {
        Batch batch(8192);
        for (std::uint32_t i = 0; i < 4; ++i) {
          batch.add(make_packet(pair.b.qp(t), n * 4 + i, 100), to(own_address(1), t % 2 == 0));
        }
        EXPECT_EQ(pair.a.link->send(batch.get(), pair.a.qp(t)), 4u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Collector sink;
  constexpr std::size_t kAll = kThreads * kBatches * 4;
  ASSERT_EQ(receive_count(*pair.b.link, sink, kAll), kAll);
  std::vector<std::uint32_t> next(kThreads, 0);
  for (const Arrived& packet : sink.arrived) {
    EXPECT_EQ(packet.psn(), next[packet.dest_qp().index()]++);
  }
  EXPECT_EQ(pair.b.drops.total(), 0u);
}

// A program in another network namespace gets its sockets from the emulator.
TEST(UdpLink, SendsFromSocketsThatItIsGivenAndOpensNone) {
  SlotGroup group_a = open_group(own_address(0));
  SlotGroup group_b = open_group(own_address(1));
  Node b(group_b);
  const int senders[] = {open_sending_socket(own_address(0), {}, true).value().fd,
                         open_sending_socket(own_address(0), {}, false).value().fd};
  DropCounters drops;
  const int rx_fd = ::dup(group_a.fd(group_a.add_slot().value()));
  auto a = UdpLink::open(rx_fd, own_address(0), {}, drops, senders);
  ASSERT_TRUE(a.ok());
  const int next_fd = ::dup(0);
  ::close(next_fd);
  for (std::uint32_t i = 0; i < 50; ++i) {  // enough for a connected socket, if one could be opened
    Batch batch;
    for (const bool has_grh : {true, false}) {
      batch.add(make_packet(b.qp(i % 4), i, 64), to(own_address(1), has_grh));
      batch.add(make_packet(b.qp(i % 4), i, 16), to(own_address(1), has_grh));
    }
    ASSERT_EQ((*a)->send(batch.get(), Qpn::from(1, i)), 4u);
  }
  Collector sink;
  ASSERT_EQ(receive_count(*b.link, sink, 200), 200u);
  EXPECT_EQ(std::count_if(sink.arrived.begin(), sink.arrived.end(),
                          [](const Arrived& packet) { return packet.fields.has_grh; }),
            100);
  const int same_fd = ::dup(0);
  ::close(same_fd);
  EXPECT_EQ(same_fd, next_fd);
}

TEST(UdpLink, IsNotOpenedWithSocketsThatAreNone) {
  DropCounters drops;
  const int senders[] = {-1, ::dup(0)};
  EXPECT_FALSE(UdpLink::open(-1, own_address(0), {}, drops, senders).ok());
}

TEST(UdpLink, SaysWhyItCannotBeOpened) {
  DropCounters drops;
  const IpAddress foreign = IpAddress::parse("203.0.113.77").value();
  auto refused = UdpLink::open(-1, foreign, {}, drops);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().error, EADDRNOTAVAIL);
  EXPECT_NE(refused.error().text.find("203.0.113.77"), std::string::npos);
}

}  // namespace
}  // namespace verbena::link::test
