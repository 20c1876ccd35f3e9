// SPDX-License-Identifier: BSD-2-Clause
// Traffic class and hop limit over UDP: each packet has its own.
#include <array>
#include <thread>

#include "link_fixture.hpp"

namespace verbena::link::test::header_fields {
namespace {

struct Fields {
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
};
constexpr Fields kUsual{};
constexpr Fields kSpecial{0x6a, 17};
constexpr Fields kOther{0x20, 255};

wire::Destination with(const Fields& fields, const IpAddress& address) {
  wire::Destination destination = to(address);
  destination.traffic_class = fields.traffic_class;
  destination.hop_limit = fields.hop_limit;
  return destination;
}

// Two links on one address. The first one sends from a single socket.
struct Pair {
  explicit Pair(const IpAddress& address)
      : options{.port = own_port(), .tx_sockets = 1, .want_ip_fields = true},
        group(open_group(address, options.port)),
        a(group, options),
        b(group, options) {}

  // Sends `packets` in one batch.
  void send(const Fields& fields, std::uint32_t packets = 1) {
    Batch batch(4096);
    for (std::uint32_t i = 0; i < packets; ++i) {
      batch.add(make_packet(b.qp(1), i, 64), with(fields, group.local()));
      sent.push_back(fields);
    }
    ASSERT_EQ(a.link->send(batch.get(), a.qp(1)), packets);
  }
  void receive() {
    Collector sink;
    ASSERT_EQ(receive_count(*b.link, sink, sent.size()), sent.size());
    ASSERT_EQ(sink.arrived.size(), sent.size());
    for (std::size_t i = 0; i < sent.size(); ++i) {
      EXPECT_EQ(sink.arrived[i].fields.traffic_class, sent[i].traffic_class) << i;
      EXPECT_EQ(sink.arrived[i].fields.hop_limit, sent[i].hop_limit) << i;
    }
    sent.clear();
  }

  UdpOptions options;
  SlotGroup group;
  Node a;
  Node b;
  std::vector<Fields> sent;
};

class HeaderFields : public ::testing::TestWithParam<bool> {
 protected:
  static IpAddress address() {
    return GetParam() ? IpAddress::parse("::1").value() : own_address();
  }
};

TEST_P(HeaderFields, AreThoseOfEachSend) {
  Pair pair(address());
  for (int i = 0; i < 5; ++i) {
    pair.send(kUsual);
    pair.send(kSpecial, 3);
    pair.send(kOther, 2);
    pair.send({kSpecial.traffic_class, kOther.hop_limit});
    pair.send({kOther.traffic_class, kSpecial.hop_limit}, 4);
  }
  pair.receive();
}

// The kernel cannot send a hop limit of 0. The smallest possible one is sent instead.
TEST_P(HeaderFields, NoHopIsOne) {
  Pair pair(address());
  pair.send({0, 0});
  for (Fields& fields : pair.sent) fields.hop_limit = 1;
  pair.receive();
}

// The hop limit for a multicast group is a different socket option.
TEST(HeaderFieldsOfAGroup, AreItsOwn) {
  Pair pair(own_address());
  const IpAddress group = IpAddress::v4(0xefff0000u | (static_cast<unsigned>(::getpid()) & 0xffff));
  const PlainSocket member(group, pair.options.port);
  ASSERT_TRUE(member.bound());
  const ip_mreq request{{htonl(group.v4_host_order())}, {htonl(own_address(0).v4_host_order())}};
  ASSERT_EQ(::setsockopt(member.fd(), IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request), 0);
  const int on = 1;
  ::setsockopt(member.fd(), IPPROTO_IP, IP_RECVTTL, &on, sizeof on);
  for (const Fields& fields : {kSpecial, kUsual, Fields{kSpecial.traffic_class, 64}, kOther}) {
    Batch batch(4096);
    batch.add(make_packet(pair.b.qp(1), 0, 64), with(fields, group));
    ASSERT_EQ(pair.a.link->send(batch.get(), pair.a.qp(1)), 1u);
    ASSERT_TRUE(wait_readable(member.fd()));
    std::array<std::uint8_t, 256> bytes{};
    alignas(cmsghdr) std::array<std::uint8_t, 64> control{};
    iovec part{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    ASSERT_GT(::recvmsg(member.fd(), &message, 0), 0);
    const cmsghdr* header = CMSG_FIRSTHDR(&message);
    ASSERT_NE(header, nullptr);
    int hop_limit = 0;
    std::memcpy(&hop_limit, CMSG_DATA(header), sizeof hop_limit);
    EXPECT_EQ(hop_limit, fields.hop_limit);
  }
}

// The threads share one socket; each sends for a queue pair with its own header fields.
TEST_P(HeaderFields, AreNeverThoseOfAnotherThread) {
  Pair pair(address());
  static constexpr std::array<Fields, 3> kFields{kUsual, kSpecial, kOther};
  constexpr std::uint32_t kRounds = 300;
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kFields.size(); ++t) {
    threads.emplace_back([&pair, t] {
      for (std::uint32_t n = 0; n < kRounds; ++n) {
        Batch batch(4096);
        batch.add(make_packet(pair.b.qp(t), n, 64), with(kFields[t], address()));
        EXPECT_EQ(pair.a.link->send(batch.get(), pair.a.qp(t)), 1u);
      }
    });
  }
  Collector sink;
  EXPECT_EQ(receive_count(*pair.b.link, sink, kRounds * kFields.size()), kRounds * kFields.size());
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(sink.arrived.size(), kRounds * kFields.size());
  for (const Arrived& packet : sink.arrived) {
    const Fields& fields = kFields[packet.dest_qp().index()];
    EXPECT_EQ(packet.fields.traffic_class, fields.traffic_class);
    EXPECT_EQ(packet.fields.hop_limit, fields.hop_limit);
  }
}

INSTANTIATE_TEST_SUITE_P(Ipv, HeaderFields, ::testing::Bool(),
                         [](const auto& tested) { return tested.param ? "6" : "4"; });

}  // namespace
}  // namespace verbena::link::test::header_fields
