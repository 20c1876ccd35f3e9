// SPDX-License-Identifier: BSD-2-Clause
// Bundles to an address that is used often go by a socket connected to it; other packets do not.
#include <pthread.h>

#include <thread>

#include "link_fixture.hpp"

namespace verbena::link::test::connected {
namespace {

// Two devices on loopback addresses. The first has one or more sockets to send from.
struct Pair {
  explicit Pair(unsigned sockets = 1) : options{.port = own_port(), .tx_sockets = sockets} {
    open_b();
  }

  void open_b(std::uint32_t host = 1) {
    b.reset();
    group_b.emplace(open_group(own_address(host), options.port));
    b.emplace(*group_b, options);
    far = b->qp(1);
  }
  void close_b() {
    b.reset();
    group_b.reset();
  }
  void send(std::uint32_t packets, const IpAddress& address = own_address(1),
            std::uint32_t flow = 1) {
    Batch batch(64 * 1024);
    for (std::uint32_t i = 0; i < packets; ++i) {
      batch.add(make_packet(far, sent++, 256), to(address));
    }
    ASSERT_EQ(a.link->send(batch.get(), a.qp(flow)), packets);
  }
  // Receives everything that was sent since the last call, in order.
  void receive() {
    Collector sink;
    ASSERT_EQ(receive_count(*b->link, sink, sent - received), sent - received);
    ASSERT_EQ(sink.arrived.size(), sent - received);
    for (const Arrived& one : sink.arrived) EXPECT_EQ(one.psn(), received++);
    EXPECT_EQ(b->drops.total(), 0u);
  }
  // Counts the sockets of this process that are connected to an address.
  int connected_to(const IpAddress& address) const {
    int count = 0;
    for (int fd = 0; fd < 256; ++fd) {
      sockaddr_in peer{};
      socklen_t size = sizeof peer;
      if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
          peer.sin_family == AF_INET && ntohs(peer.sin_port) == options.port &&
          ntohl(peer.sin_addr.s_addr) == address.v4_host_order()) {
        ++count;
      }
    }
    return count;
  }

  UdpOptions options;
  SlotGroup group_a{open_group(own_address(0), options.port)};
  Node a{group_a, options};
  std::optional<SlotGroup> group_b;
  std::optional<Node> b;
  Qpn far;
  std::uint32_t sent = 0;
  std::uint32_t received = 0;
};

TEST(ConnectedSocket, TakesBundlesThatGoThereAgainAndAgain) {
  Pair pair;
  for (int i = 0; i < 15; ++i) pair.send(2);
  EXPECT_EQ(pair.connected_to(own_address(1)), 0);
  for (int i = 0; i < 15; ++i) pair.send(2);
  EXPECT_EQ(pair.connected_to(own_address(1)), 1);
  pair.receive();
}

// A connected socket's IPv4 identifications are unknown, and a lone packet's ICRC covers them.
TEST(ConnectedSocket, IsNotForLonePackets) {
  Pair pair;
  for (int i = 0; i < 40; ++i) pair.send(1);
  EXPECT_EQ(pair.connected_to(own_address(1)), 0);
  for (int i = 0; i < 40; ++i) {
    pair.send(3);
    pair.send(1);
  }
  EXPECT_EQ(pair.connected_to(own_address(1)), 1);
  pair.receive();
  EXPECT_EQ(pair.b->link->statistics().foreign_ids.read(), 0u);
}

TEST(ConnectedSocket, FollowsWhereBundlesGo) {
  Pair pair;
  for (int i = 0; i < 40; ++i) pair.send(2);
  pair.receive();
  pair.open_b(2);
  for (int i = 0; i < 40; ++i) pair.send(2, own_address(2));
  EXPECT_EQ(pair.connected_to(own_address(1)), 0);
  EXPECT_EQ(pair.connected_to(own_address(2)), 1);
  pair.receive();
}

TEST(ConnectedSocket, StaysWhereBundlesGoElsewhereInBetween) {
  Pair pair;
  for (int i = 0; i < 40; ++i) pair.send(2);
  pair.receive();
  for (int i = 0; i < 40; ++i) {
    for (int k = 0; k < 3; ++k) pair.send(2, own_address(3));  // no device has this address
    pair.received = pair.sent;
    pair.send(2);
    pair.receive();
  }
  EXPECT_EQ(pair.connected_to(own_address(1)), 1);
}

// At the next send, the system reports to a connected socket that its last datagram found no
// receiver. That next send must not be lost because of the report.
TEST(ConnectedSocket, LosesNothingMoreWhenItsPeerCameBack) {
  Pair pair;
  for (int i = 0; i < 40; ++i) pair.send(2);
  pair.receive();
  pair.close_b();
  pair.send(2);
  pair.received = pair.sent;
  pair.open_b();
  pair.send(2);
  pair.receive();
  EXPECT_EQ(pair.a.link->statistics().unreachable.read(), 0u);
  EXPECT_EQ(pair.connected_to(own_address(1)), 1);
}

// A send is no cancellation point, not even if it first opens a socket and closes others whose
// ports do not fit.
TEST(ConnectedSocket, IsMadeByAThreadThatIsCancelled) {
  Pair pair(16);
  bool has_sent = false;
  std::thread thread([&] {
    pthread_cancel(pthread_self());
    for (std::uint32_t flow = 0; flow < 16; ++flow) {
      for (int i = 0; i < 20; ++i) pair.send(2, own_address(1), flow);
    }
    has_sent = true;
  });
  thread.join();
  EXPECT_TRUE(has_sent);
  EXPECT_EQ(pair.connected_to(own_address(1)), 16);
  pair.receive();
}

}  // namespace
}  // namespace verbena::link::test::connected
