// SPDX-License-Identifier: BSD-2-Clause
// Rings beside UDP: every packet takes the right way, in order across a change of ways, and a peer
// that dies or lies harms no other peer. (peer_sleep_test.cpp tests how sleepers wake.)
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "peer_link_fixture.hpp"

namespace verbena::link::test {
namespace {

TEST_F(PeerLinkTest, EverybodyIsReachedByUdpFirst) {
  EXPECT_EQ(a_.link->carrier_to(b_.self), Carrier::kUdp);
  EXPECT_EQ(send(a_, b_, 0, 20), 20u);
  Collector sink;
  receive(b_, sink, 20);
  expect_psns(sink, 20);
  EXPECT_EQ(b_.link->statistics().ring_packets_received.read(), 0u);
}

TEST_F(PeerLinkTest, ARingCarriesWhatIsForItsPeerOnly) {
  join_and_forget(a_, b_);
  EXPECT_EQ(a_.link->carrier_to(b_.self), Carrier::kRing);
  EXPECT_EQ(a_.link->carrier_to(c_.self), Carrier::kUdp);
  Batch mixed;
  for (std::uint32_t i = 0; i < 30; ++i) {
    const Context& target = i % 3 == 0 ? c_ : b_;
    mixed.add(make_packet(target.qp(1), i, 100), to(own_address(1), false));
  }
  EXPECT_EQ(a_.link->send(mixed.get(), a_.qp(1)), 30u);
  EXPECT_EQ(a_.link->ring_packets_sent(), 20u);
  Collector at_b;
  receive(b_, at_b, 20);
  Collector at_c;
  receive(c_, at_c, 10);
  EXPECT_EQ(b_.link->statistics().ring_packets_received.read(), 20u);
  EXPECT_EQ(c_.link->statistics().ring_packets_received.read(), 0u);
  for (const Arrived& packet : at_b.arrived) {
    EXPECT_EQ(packet.dest_qp(), b_.qp(1));
    EXPECT_EQ(packet.fields.source, own_address(0));
    EXPECT_EQ(packet.fields.destination, own_address(1));
    EXPECT_FALSE(packet.fields.has_grh);
  }
}

TEST_F(PeerLinkTest, AnAcknowledgementRidesByTheRingAndByUdp) {
  const wire::Destination where = to(own_address(1), true);
  const auto send_to = [&](const Context& target, std::uint32_t psn) {
    const Bytes packet = make_packet(target.qp(1), psn, 40);
    Bytes acknowledgement(wire::PiggybackedAck::kPacketSize);
    const wire::PiggybackedAck ack{wire::Aeth::ack(3, 7), Psn(psn)};
    ack.write_packet(packet.data(), acknowledgement.data());
    Batch batch;
    batch.add(acknowledgement, where);
    batch.add(packet, where);
    return a_.link->send(batch.get(), a_.qp(1)) == 2;
  };
  ASSERT_TRUE(send_to(b_, 0));
  const int fd = join(a_, b_);
  ASSERT_TRUE(send_to(c_, 0));
  for (Context* target : {&b_, &c_}) {
    Collector by_udp;
    receive(*target, by_udp, 1);
    ASSERT_EQ(by_udp.arrived.size(), 1u);
    EXPECT_TRUE(by_udp.arrived[0].fields.piggybacked_ack);
  }
  EXPECT_EQ(a_.link->ring_packets_sent(), 0u);
  ASSERT_TRUE(send_to(b_, 0));
  EXPECT_EQ(a_.link->ring_packets_sent(), 2u) << "the piggybacked ack is a packet, too";
  Collector sink;
  receive(b_, sink, 1);
  // A reader that sleeps is woken.
  ASSERT_TRUE(b_.link->prepare_wait());
  ASSERT_TRUE(send_to(b_, 1));
  ASSERT_TRUE(wait_readable(b_.link->wait_fd()));
  b_.link->end_wait();
  receive(b_, sink, 2);
  expect_psns(sink, 2);
  for (const Arrived& packet : sink.arrived) {
    ASSERT_TRUE(packet.fields.piggybacked_ack);
    EXPECT_EQ(packet.fields.piggybacked_ack->psn, Psn(packet.psn()));
    EXPECT_EQ(packet.fields.source, own_address(0));
    EXPECT_TRUE(packet.fields.has_grh);
  }
  SharedRing::map(fd).value().close();
  ::close(fd);
  ASSERT_TRUE(send_to(b_, 2)) << "by UDP again";
  EXPECT_EQ(a_.link->ring_packets_sent(), 4u);
  EXPECT_EQ(a_.link->carrier_to(b_.self), Carrier::kUdp);
}

TEST_F(PeerLinkTest, OrderIsKeptWhenAPeerMovesToARing) {
  std::uint32_t psn = 0;
  for (int i = 0; i < 50; ++i) ASSERT_EQ(send(a_, b_, psn++, 1), 1u);
  join_and_forget(a_, b_);
  for (int i = 0; i < 50; ++i) ASSERT_EQ(send(a_, b_, psn++, 1), 1u);
  Collector sink;
  receive(b_, sink, psn);
  expect_psns(sink, psn);
  EXPECT_EQ(b_.link->statistics().ring_packets_received.read(), 50u);
}

TEST_F(PeerLinkTest, AFullRingTakesTheRestLater) {
  join_and_forget(a_, b_, 64 * 1024);
  std::uint32_t sent = 0;
  while (send(a_, b_, sent, 1, 4000) == 1) ++sent;
  EXPECT_GE(sent, 15u);
  EXPECT_EQ(a_.link->statistics().ring_full.read(), 1u);
  Collector sink;
  receive(b_, sink, sent);
  ASSERT_EQ(send(a_, b_, sent++, 1, 4000), 1u);
  receive(b_, sink, sent);
  expect_psns(sink, sent);
}

// A turn takes fewer long packets, so that the application waits less for what they complete.
TEST_F(PeerLinkTest, AReadersTurnEndsAfterSoManyBytes) {
  join_and_forget(a_, b_);
  ASSERT_EQ(send(a_, b_, 0, 30, 4000), 30u);
  ASSERT_EQ(send(a_, b_, 30, 30, 100), 30u);
  Collector sink;
  for (const std::uint64_t so_far : {9u, 18u, 27u, 60u}) {
    b_.link->receive(sink, 64);
    EXPECT_EQ(b_.link->statistics().ring_packets_received.read(), so_far);
  }
  expect_psns(sink, 60);
}

TEST_F(PeerLinkTest, UdpIsReadBesideBusyRings) {
  join_and_forget(a_, b_);
  Collector sink;
  std::uint32_t psn = 0;
  ASSERT_EQ(send(c_, b_, 1'000'000, 5), 5u);
  for (int round = 0; round < 100; ++round) {
    ASSERT_EQ(send(a_, b_, psn, 4), 4u);
    psn += 4;
    b_.link->receive(sink, 64);
  }
  std::size_t from_c = 0;
  for (const Arrived& packet : sink.arrived) from_c += packet.psn() >= 1'000'000 ? 1 : 0;
  EXPECT_EQ(from_c, 5u);
}

// Packets go back and forth. A reader that finds a packet answers at once, and reads UDP only while
// there is no packet.
TEST_F(PeerLinkTest, UdpIsNotInTheWayOfAnAnswer) {
  join_and_forget(a_, b_);
  Collector sink;
  const auto calls = [this] { return b_.link->udp().statistics().receive_calls.read(); };
  ASSERT_EQ(send(a_, b_, 0, 1), 1u);
  receive(b_, sink, 1);
  const std::uint64_t before = calls();
  for (std::uint32_t psn = 1; psn < 1000; ++psn) {
    for (std::uint32_t i = 0; i < psn % 30; ++i) b_.link->receive(sink, 64);
    ASSERT_EQ(send(a_, b_, psn, 1), 1u);
    const std::uint64_t seen = calls();
    ASSERT_EQ(b_.link->receive(sink, 64), 1u);
    // The reader had time to read UDP before.
    if (psn % 30 != 0) {
      ASSERT_EQ(calls(), seen) << psn;
    }
  }
  expect_psns(sink, 1000);
  EXPECT_GE(calls() - before, 1000 / 16 / 2);
}

TEST_F(PeerLinkTest, WhoLingersSeesWhatCameAndTakesNothing) {
  EXPECT_FALSE(a_.link->linger()) << "there are no rings";
  join_and_forget(b_, a_);
  join_and_forget(c_, a_);
  Collector nothing;
  a_.link->receive(nothing, 64);  // reads the rings as well
  EXPECT_FALSE(a_.link->linger());
  for (const Context* from : {&c_, &b_}) {
    Batch batch;
    batch.add(make_packet(a_.qp(1), 0, 100), to(own_address(0), false));
    ASSERT_EQ(from->link->send(batch.get(), from->qp(1)), 1u);
    EXPECT_TRUE(a_.link->linger());
    EXPECT_TRUE(a_.link->linger());
    Collector sink;
    receive(a_, sink, 1);
    ASSERT_EQ(sink.arrived.size(), 1u);
    EXPECT_FALSE(a_.link->linger());
  }
  EXPECT_EQ(a_.link->statistics().ring_packets_received.read(), 2u);
}

TEST_F(PeerLinkTest, ARemovedPeerIsReachedByUdpAgain) {
  join_and_forget(a_, b_);
  ASSERT_EQ(send(a_, b_, 0, 1), 1u);
  Collector sink;
  receive(b_, sink, 1);
  a_.link->remove(b_.self);
  b_.link->remove(a_.self);
  EXPECT_EQ(a_.link->carrier_to(b_.self), Carrier::kUdp);
  ASSERT_EQ(send(a_, b_, 1, 1), 1u);
  receive(b_, sink, 2);
  join_and_forget(a_, b_);
  EXPECT_EQ(a_.link->carrier_to(b_.self), Carrier::kRing);
  ASSERT_EQ(send(a_, b_, 2, 1), 1u);
  receive(b_, sink, 3);
  expect_psns(sink, 3);
}

TEST_F(PeerLinkTest, TheLastWordsOfAPeerAreHeard) {
  join_and_forget(a_, b_);
  ASSERT_EQ(send(a_, b_, 0, 40), 40u);
  b_.link->remove(a_.self);
  Collector sink;
  receive(b_, sink, 40);
  expect_psns(sink, 40);
}

// The child does what the handler of a fork does. The parent's rings live on.
TEST_F(PeerLinkTest, AForkedChildTouchesNoRing) {
  join_and_forget(a_, b_);
  join_and_forget(b_, a_);
  ASSERT_EQ(send(a_, b_, 0, 1), 1u);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    a_.link->abandon_rings();
    a_.link.reset();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(send(a_, b_, 1, 1), 1u);
  EXPECT_EQ(a_.link->carrier_to(b_.self), Carrier::kRing);
  Collector sink;
  receive(b_, sink, 2);
  expect_psns(sink, 2);
}

TEST_F(PeerLinkTest, ARingTellsWhetherItHasRoomUntilItsReaderIsStuck) {
  using Room = wire::Path::Room;
  EXPECT_EQ(a_.link->room(b_.self, 1), Room::kUnknown);
  join_and_forget(a_, b_, 64 * 1024);
  EXPECT_EQ(a_.link->room(b_.self, 1), Room::kSome);
  ASSERT_EQ(send(a_, b_, 0, 10, 4000), 10u);
  EXPECT_EQ(a_.link->room(b_.self, 1), Room::kNone);
  EXPECT_EQ(a_.link->room(b_.self, PeerLink::kStuckAfter), Room::kNone);
  EXPECT_EQ(a_.link->room(b_.self, PeerLink::kStuckAfter + 1), Room::kSome);
  Collector sink;
  receive(b_, sink, 10);
  expect_psns(sink, 10);
  EXPECT_EQ(a_.link->room(b_.self, PeerLink::kStuckAfter + 1), Room::kSome);
  // A reader that has moved gets the full time again.
  ASSERT_EQ(send(a_, b_, 10, 10, 4000), 10u);
  EXPECT_EQ(a_.link->room(b_.self, PeerLink::kStuckAfter + 2), Room::kNone);
}

// The reader of an earlier ring to this peer stood still at the same place.
TEST_F(PeerLinkTest, ANewRingsReaderGetsTheFullTime) {
  using Room = wire::Path::Room;
  for (const TimeNs now : {TimeNs{1}, 10 * PeerLink::kStuckAfter}) {
    join_and_forget(a_, b_, 64 * 1024);
    ASSERT_EQ(send(a_, b_, 0, 10, 4000), 10u);
    EXPECT_EQ(a_.link->room(b_.self, now), Room::kNone);
    a_.link->remove(b_.self);
  }
}

TEST_F(PeerLinkTest, ARingTellsHowFarItWasRead) {
  EXPECT_FALSE(a_.link->reading(b_.self));
  const int fd = join(a_, b_);
  const auto is_read = [&] {
    const auto reading = a_.link->reading(b_.self);
    return reading && reading->taken == reading->given;
  };
  EXPECT_TRUE(is_read());
  ASSERT_EQ(send(a_, b_, 0, 3), 3u);
  EXPECT_FALSE(is_read());
  const auto unread = a_.link->reading(b_.self);
  Collector sink;
  receive(b_, sink, 3);
  EXPECT_TRUE(is_read());
  EXPECT_EQ(a_.link->reading(b_.self)->given, unread->given);
  SharedRing::map(fd).value().close();
  ::close(fd);
  EXPECT_FALSE(a_.link->reading(b_.self));
}

// Later peers take the places of those that have gone.
TEST_F(PeerLinkTest, APlaceThatAnotherPeerTookIsNoRingToTheFirst) {
  const auto peer = [&](std::size_t n) {
    return Peer{IpAddress::v4(0x0a000001u + static_cast<std::uint32_t>(n)), 1};
  };
  const auto add = [&](const Peer& to) {
    const int fd = SharedRing::create(64 * 1024).value();
    EXPECT_TRUE(a_.link->add_outbound(to, SharedRing::map(fd).value()));
    ::close(fd);
  };
  for (std::size_t n = 0; n < PeerLink::kPeersMax; ++n) {
    add(peer(n));
    EXPECT_TRUE(a_.link->reading(peer(n)));
  }
  for (std::size_t lap = 1; lap < 20; ++lap) {
    for (std::size_t n = 0; n < PeerLink::kPeersMax; ++n) {
      a_.link->remove(peer(n + (lap - 1) * 1000));
      add(peer(n + lap * 1000));
      EXPECT_FALSE(a_.link->reading(peer(n))) << n << ' ' << lap;
    }
  }
  a_.link->remove(peer(19'000));
  add(peer(7));
  for (std::size_t n = 0; n < PeerLink::kPeersMax; ++n) {
    EXPECT_EQ(a_.link->reading(peer(n)).has_value(), n == 7) << n;
  }
}

// The emulator saw the reader die, and closes the ring in shared memory. No message is on its way.
TEST_F(PeerLinkTest, ARingThatWasClosedLeadsBackToUdpAtOnce) {
  const int fd = join(a_, b_);
  SharedRing::map(fd).value().close();
  ::close(fd);
  EXPECT_EQ(a_.link->carrier_to(b_.self), Carrier::kUdp);
  ASSERT_EQ(send(a_, b_, 0, 1), 1u);
  Collector sink;
  receive(b_, sink, 1);
  EXPECT_EQ(a_.link->ring_packets_sent(), 0u);
}

TEST_F(PeerLinkTest, ALiarEndsHisOwnRingOnly) {
  const int fd = join(a_, b_);
  join_and_forget(c_, b_);
  ASSERT_EQ(send(a_, b_, 0, 1), 1u);
  constexpr std::size_t kRecordsAt = 4096;
  auto* raw = static_cast<std::uint8_t*>(
      ::mmap(nullptr, 2 * kRecordsAt, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  ::close(fd);
  raw[kRecordsAt] = 3;  // the length of its first packet
  raw[kRecordsAt + 1] = 0;
  ASSERT_EQ(send(c_, b_, 0, 10), 10u);
  Collector sink;
  receive(b_, sink, 10);
  expect_psns(sink, 10);
  EXPECT_EQ(b_.link->statistics().rings_broken.read(), 1u);
  EXPECT_EQ(a_.link->carrier_to(b_.self), Carrier::kUdp);
  EXPECT_EQ(c_.link->carrier_to(b_.self), Carrier::kRing);
  ::munmap(raw, 2 * kRecordsAt);
}

TEST_F(PeerLinkTest, DamageByRingIsLoss) {
  join_and_forget(a_, b_);
  Batch batch;
  batch.add(make_packet(b_.qp(1), 0, 64), to(own_address(1)));
  EXPECT_EQ(a_.link->send_damaged(batch.get(), a_.qp(1), Damage{99}), 1u);
  Collector sink;
  while (b_.link->receive(sink, 64) > 0) {
  }
  EXPECT_TRUE(sink.arrived.empty());
  EXPECT_EQ(b_.node.drops.read(DropReason::kBadIcrc), 0u);
}

TEST_F(PeerLinkTest, HoldsRingsForManyPeersAndRefusesTheRest) {
  for (std::uint32_t slot = 1; slot <= PeerLink::kPeersMax + 1; ++slot) {
    const int fd = SharedRing::create(64 * 1024).value();
    const Peer peer{own_address(2), slot};
    const bool added = a_.link->add_outbound(peer, SharedRing::map(fd).value());
    EXPECT_EQ(added, slot <= PeerLink::kPeersMax);
    EXPECT_EQ(a_.link->carrier_to(peer), added ? Carrier::kRing : Carrier::kUdp);
    ::close(fd);
  }
  // Other peers come and go many times.
  for (std::uint32_t slot = 1; slot <= 1000; ++slot) {
    a_.link->remove({own_address(2), (slot - 1) % 1022 + 1});
    a_.link->remove({own_address(3), slot - 1});
    const int fd = SharedRing::create(64 * 1024).value();
    const Peer peer{own_address(3), slot};
    ASSERT_TRUE(a_.link->add_outbound(peer, SharedRing::map(fd).value())) << slot;
    ASSERT_EQ(a_.link->carrier_to(peer), Carrier::kRing) << slot;
    ::close(fd);
  }
}

TEST_F(PeerLinkTest, ManyThreadsSendIntoOneRingWhileItComesAndGoes) {
  constexpr std::uint32_t kThreads = 3;
  constexpr std::uint32_t kPackets = 300;
  std::atomic<bool> stop{false};
  std::thread administration([&] {
    while (!stop) {
      join_and_forget(a_, b_);
      a_.link->remove(b_.self);
    }
  });
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (std::uint32_t n = 0; n < kPackets; ++n) send(a_, b_, n, 2);
    });
  }
  Collector sink;
  for (int i = 0; i < 500; ++i) {
    if (b_.link->prepare_wait()) {
      wait_readable(b_.link->wait_fd(), 1);
      b_.link->end_wait();
    }
    b_.link->receive(sink, 64);
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  administration.join();
  for (const Arrived& packet : sink.arrived) EXPECT_EQ(packet.bytes.size(), 100u);
}

// A process is killed while it writes. What it finished arrives, and other peers go on.
TEST_F(PeerLinkTest, AWriterThatIsKilledHarmsNobody) {
  for (int round = 0; round < 5; ++round) {
    const int fd = SharedRing::create().value();
    const Peer writer{own_address(3), static_cast<std::uint32_t>(round + 1)};
    b_.link->add_inbound(writer, SharedRing::map(fd).value());
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      RingWriter ring(SharedRing::map(fd).value());
      for (std::uint32_t n = 0;; n = (n + 1) & 0xffffff) {
        Batch batch(8192);
        batch.add(make_packet(b_.qp(1), n, 1000), to(own_address(1)));
        while (ring.put(batch.get(), 0, 1) == 0) cpu_relax();
      }
    }
    Collector sink;
    while (sink.arrived.size() < 1000) b_.link->receive(sink, 64);
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    while (b_.link->receive(sink, 64) > 0 || !b_.link->prepare_wait()) {
    }
    b_.link->end_wait();
    expect_psns(sink, static_cast<std::uint32_t>(sink.arrived.size()));
    for (const Arrived& packet : sink.arrived) {
      ASSERT_EQ(packet.bytes, make_packet(b_.qp(1), packet.psn(), 1000));
    }
    EXPECT_EQ(b_.link->statistics().rings_broken.read(), 0u);
    b_.link->remove(writer);
    ::close(fd);
  }
  join_and_forget(a_, b_);
  ASSERT_EQ(send(a_, b_, 0, 5), 5u);
  Collector sink;
  receive(b_, sink, 5);
  expect_psns(sink, 5);
}

}  // namespace
}  // namespace verbena::link::test
