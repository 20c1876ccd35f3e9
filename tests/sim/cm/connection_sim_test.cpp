// SPDX-License-Identifier: BSD-2-Clause
// Connections through a network without faults: what each side sees, on one host and on two, in
// both personas; ten thousand in a row; many at once.
#include <gtest/gtest.h>

#include "cm_programs.hpp"

namespace verbena::cm::sim {
namespace {

using enum RdmaEventType;

struct Pair {
  explicit Pair(std::uint64_t seed, bool roce = false, PortSpace space = PortSpace::kTcp)
      : world(seed, roce),
        a(world.add_host()),
        b(world.add_host()),
        client(a, kChannel, space),
        server(b, kChannel, space) {}

  bool run(TimeNs limit) {
    const TimeNs end = world.now + limit;
    for (;;) {
      client.run(world.now);
      server.run(world.now);
      if (client.finished) return true;
      if (!world.step(end)) return client.finished;
    }
  }
  void settle() {
    for (client.run(world.now); world.step(); client.run(world.now)) server.run(world.now);
    server.run(world.now);
  }

  World world;
  Host& a;
  Host& b;
  Client client;
  Server server;
};

class PersonaTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Both, PersonaTest, testing::Values(false, true),
                         [](const auto& i) { return i.param ? "Roce" : "InfiniBand"; });

TEST_P(PersonaTest, EachSideSeesItsEventsOnceAndNothingRemains) {
  Pair p(1, GetParam());
  ASSERT_EQ(p.client.connect(p.b.ports.default_port_address()), 0);
  ASSERT_TRUE(p.run(kSecond));
  p.settle();
  EXPECT_TRUE(p.client.connected);
  EXPECT_EQ(
      p.client.seen,
      (std::map<RdmaEventType, int>{
          {kAddrResolved, 1}, {kRouteResolved, 1}, {kConnectResponse, 1}, {kDisconnected, 1}}));
  EXPECT_EQ(p.server.seen, (std::map<RdmaEventType, int>{
                               {kConnectRequest, 1}, {kEstablished, 1}, {kDisconnected, 1}}));
  EXPECT_EQ(p.a.cm.ids(), 0u);
  EXPECT_EQ(p.b.cm.ids(), 1u);  // the listener
  EXPECT_EQ(p.a.cm.agent().size(), 0u);
  EXPECT_EQ(p.b.cm.agent().size(), 0u);
  EXPECT_EQ(p.a.cm.port_table().ports_in_use(), 0u);
  EXPECT_TRUE(p.world.is_consistent());
}

TEST_P(PersonaTest, ParametersCrossTheWireAndChangeTheirPointOfView) {
  Pair p(2, GetParam());
  p.client.hangs_up = false;
  p.client.connect(p.b.ports.default_port_address(), 0x8003);
  p.run(kSecond);
  const ConnParam& request = std::get<ConnParam>(p.server.last_request.param);
  EXPECT_EQ(p.server.last_request.uid, 1000u);
  EXPECT_EQ(request.qp_num, 0x8003u);
  EXPECT_EQ(request.responder_resources, 2);  // the client's depth
  EXPECT_EQ(request.initiator_depth, 3);
  EXPECT_EQ(request.retry_count, 7);
  EXPECT_EQ(request.private_data.size, 56);
  EXPECT_EQ(request.private_data.bytes[0], 'r');
  EXPECT_EQ(p.server.last_request.ece.vendor_id, 0x15b3u);
  EXPECT_EQ(p.server.last_request.ece.option, 9u);
  const ConnParam& response = std::get<ConnParam>(p.client.response.param);
  EXPECT_EQ(response.qp_num, 0x4000u + p.server.last_request.id);
  EXPECT_EQ(response.private_data.size, 196);
  EXPECT_EQ(response.private_data.bytes[1], 'i');
  EXPECT_EQ(p.client.response.ece.option, 7u);
}

TEST_P(PersonaTest, QueuePairAttributesFitTogether) {
  Pair p(3, GetParam());
  p.client.hangs_up = false;
  p.client.connect(p.b.ports.default_port_address(), 0x8003);
  p.run(kSecond);
  QpAttr active;
  QpAttr passive;
  const IdHandle far = p.server.last_request.id;
  ASSERT_EQ(p.a.cm.init_qp_attr(kChannel, p.client.id, 1, active), 0);
  EXPECT_EQ(active.mask, kMaskState | kMaskAccessFlags | kMaskPkeyIndex | kMaskPort);
  EXPECT_EQ(active.access_flags, 2u | 4u | 8u);
  ASSERT_EQ(p.a.cm.init_qp_attr(kChannel, p.client.id, 2, active), 0);
  ASSERT_EQ(p.b.cm.init_qp_attr(kChannel, far, 2, passive), 0);
  EXPECT_EQ(active.mask, kMaskState | kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn |
                             kMaskMaxDestRdAtomic | kMaskMinRnrTimer);
  EXPECT_EQ(active.dest_qp_num, 0x4000u + far);
  EXPECT_EQ(passive.dest_qp_num, 0x8003u);
  EXPECT_EQ(active.path_mtu, 5u);
  EXPECT_EQ(active.ah.is_global, GetParam());
  if (!GetParam()) {
    EXPECT_EQ(active.ah.dlid, 2);
    EXPECT_EQ(passive.ah.dlid, 1);
  }
  EXPECT_EQ(active.ah.dgid, p.b.ports.default_port()->gid);
  EXPECT_EQ(passive.ah.dgid, p.a.ports.default_port()->gid);
  QpAttr active_rts;
  QpAttr passive_rts;
  ASSERT_EQ(p.a.cm.init_qp_attr(kChannel, p.client.id, 3, active_rts), 0);
  ASSERT_EQ(p.b.cm.init_qp_attr(kChannel, far, 3, passive_rts), 0);
  EXPECT_EQ(active_rts.sq_psn, passive.rq_psn);
  EXPECT_EQ(passive_rts.sq_psn, active.rq_psn);
  EXPECT_EQ(active_rts.timeout, 17);
  EXPECT_EQ(passive_rts.timeout, 17);
  EXPECT_EQ(active_rts.max_rd_atomic, 4) << "as the server accepted";
  EXPECT_EQ(passive_rts.retry_count, 7);
  EXPECT_EQ(p.a.cm.init_qp_attr(kChannel, p.client.id, 77, active), EINVAL);
}

// As on hardware, the request carries the traffic class of the path, and the passive side's queue
// pair answers with it, whatever its listener was told.
TEST_P(PersonaTest, TheTypeOfServiceOfTheActiveSideIsThatOfBoth) {
  Pair p(3, GetParam());
  p.client.hangs_up = false;
  const std::uint8_t listeners = 0x20;
  ASSERT_EQ(p.b.cm.set_option(kChannel, p.server.listener, 0, 0, std::span(&listeners, 1)), 0);
  p.client.connect(p.b.ports.default_port_address());
  const std::uint8_t wanted = 0x68;
  ASSERT_EQ(p.a.cm.set_option(kChannel, p.client.id, 0, 0, std::span(&wanted, 1)), 0);
  p.run(kSecond);
  const IdHandle far = p.server.last_request.id;
  QpAttr active;
  QpAttr passive;
  RouteInfo route;
  ASSERT_EQ(p.a.cm.init_qp_attr(kChannel, p.client.id, 2, active), 0);
  ASSERT_EQ(p.b.cm.init_qp_attr(kChannel, far, 2, passive), 0);
  ASSERT_EQ(p.b.cm.query(kChannel, far, route), 0);
  EXPECT_EQ(active.ah.traffic_class, wanted);
  EXPECT_EQ(passive.ah.traffic_class, wanted);
  EXPECT_EQ(route.path.traffic_class, wanted);
}

// librdmacm brings the queue pair to RTS before it accepts.
TEST_P(PersonaTest, APassiveSideMayAskForItsAttributesBeforeItAccepts) {
  Pair p(3, GetParam());
  p.client.hangs_up = false;
  p.server.accepts = false;
  p.client.connect(p.b.ports.default_port_address());
  while (p.server.held.empty()) {
    p.client.run(p.world.now);
    ASSERT_TRUE(p.world.step(p.world.now + kSecond / 2));
    p.server.run(p.world.now);
  }
  const IdHandle far = *p.server.held.begin();
  QpAttr before;
  QpAttr after;
  QpAttr active;
  ASSERT_EQ(p.b.cm.init_qp_attr(kChannel, far, 2, before), 0);
  EXPECT_EQ(before.max_dest_rd_atomic, 2) << "the client's depth";
  p.server.accept(p.world.now, far);
  ASSERT_TRUE(p.world.step(p.world.now + kSecond / 2));
  p.client.run(p.world.now);
  ASSERT_EQ(p.b.cm.init_qp_attr(kChannel, far, 2, after), 0);
  ASSERT_EQ(p.a.cm.init_qp_attr(kChannel, p.client.id, 3, active), 0);
  EXPECT_EQ(before.rq_psn, after.rq_psn);
  EXPECT_EQ(before.rq_psn, active.sq_psn);
}

// The main use on a laptop: both programs run on one host and use any local address.
TEST(LoopbackTest, EveryLocalAddressLeadsToTheDeviceItself) {
  for (const char* text : {"127.0.0.1", "127.9.9.9", "192.168.7.7", "10.0.0.1", "0.0.0.0"}) {
    World world(4);
    Host& host = world.add_host();
    Server server(host, 1);
    Client client(host, 2);
    ASSERT_EQ(client.connect(*IpAddress::parse(text)), 0) << text;
    while (!client.finished) {
      client.run(world.now);
      server.run(world.now);
      if (client.finished) break;
      ASSERT_TRUE(world.step(100 * kSecond)) << text;
    }
    EXPECT_TRUE(client.connected) << text;
    EXPECT_EQ(server.seen[kEstablished], 1) << text;
  }
}

TEST(DatagramTest, SidrTellsTheQueuePairAndItsKey) {
  Pair p(5, false, PortSpace::kUdp);
  p.client.connect(p.b.ports.default_port_address());
  ASSERT_TRUE(p.run(kSecond));
  EXPECT_TRUE(p.client.connected);
  const UdParam& ud = std::get<UdParam>(p.client.response.param);
  EXPECT_EQ(ud.qp_num, 0x4000u + p.server.last_request.id);
  EXPECT_EQ(ud.qkey, kUdpQkey);
  EXPECT_EQ(ud.ah.dlid, 2);
  EXPECT_EQ(ud.private_data.size, 136);
  EXPECT_EQ(std::get<UdParam>(p.server.last_request.param).private_data.size, 180);
  p.settle();
  EXPECT_EQ(p.a.cm.agent().size(), 0u);
}

// As on Linux, the SIDR request has no room for these options, and the reply has. A reply that
// rejects offers none.
TEST(DatagramTest, OnlyTheSidrReplyCarriesConnectionEstablishmentOptions) {
  Pair p(5, false, PortSpace::kUdp);
  std::vector<Mad> carried;
  p.world.network = [&](const Flight& flight) {
    carried.push_back(parse_mad(flight.mad.bytes).value());
    return std::vector{flight};
  };
  p.client.connect(p.b.ports.default_port_address());
  ASSERT_TRUE(p.run(kSecond));
  EXPECT_EQ(p.server.last_request.ece.vendor_id, 0u);
  EXPECT_EQ(p.server.last_request.ece.option, 0u);
  EXPECT_EQ(p.client.response.ece.vendor_id, 0x15b3u);
  EXPECT_EQ(p.client.response.ece.option, 7u);
  ASSERT_EQ(carried.size(), 2u);
  EXPECT_EQ(carried[0].attribute_modifier, 0u);
  EXPECT_EQ(carried[1].attribute_modifier, 7u);
  const SidrRep& rep = std::get<SidrRep>(carried[1].message);
  EXPECT_EQ(rep.ece_vendor_high, 0x15u);
  EXPECT_EQ(rep.ece_vendor_low, 0xb3u);

  p.server.rejects = true;
  p.client.finished = false;
  p.client.connect(p.b.ports.default_port_address());
  ASSERT_TRUE(p.run(kSecond));
  ASSERT_EQ(carried.size(), 4u);
  EXPECT_EQ(carried[3].attribute_modifier, 0u);
  EXPECT_EQ(std::get<SidrRep>(carried[3].message).ece_vendor_low, 0u);
}

TEST(RejectTest, NoListenerIsAnswered) {
  Pair p(6);
  p.server.destroy(p.world.now, p.server.listener);
  p.client.connect(p.b.ports.default_port_address());
  ASSERT_TRUE(p.run(kSecond));
  EXPECT_EQ(p.client.seen[kRejected], 1);
  EXPECT_EQ(p.client.last_status, 8);
  Pair u(6, false, PortSpace::kUdp);
  u.server.destroy(u.world.now, u.server.listener);
  u.client.connect(u.b.ports.default_port_address());
  ASSERT_TRUE(u.run(kSecond));
  EXPECT_EQ(u.client.seen[kUnreachable], 1);
  EXPECT_EQ(u.client.last_status, 1);
}

TEST(RejectTest, TheProgramsRejectionCarriesItsData) {
  Pair p(7);
  p.server.accepts = false;
  p.client.connect(p.b.ports.default_port_address());
  for (int i = 0; i < 20 && p.server.held.empty(); ++i) {
    p.client.run(p.world.now);
    p.world.step(p.world.now + kSecond / 2);
    p.server.run(p.world.now);
  }
  ASSERT_EQ(p.server.held.size(), 1u);
  const std::vector<std::uint8_t> why{'n', 'o'};
  EXPECT_EQ(p.b.cm.reject(p.world.now, kChannel, *p.server.held.begin(), 99, why), EINVAL);
  EXPECT_EQ(p.b.cm.reject(p.world.now, kChannel, *p.server.held.begin(), 0, why), 0);
  ASSERT_TRUE(p.run(kSecond));
  EXPECT_EQ(p.client.last_status, 28);
}

TEST(BacklogTest, ARequestBeyondTheBacklogIsRejectedUntilOneIsRead) {
  World world(8);
  Host& a = world.add_host();
  Host& b = world.add_host();
  b.cm.open_channel(9);
  IdHandle listener = 0;
  b.cm.create_id(9, 1, 0x106, 0, listener);
  b.cm.bind(9, listener, inet(IpAddress::v4(0), kPort));
  ASSERT_EQ(b.cm.listen(world.now, 9, listener, 2), 0);
  std::vector<std::unique_ptr<Client>> clients;
  for (ChannelId i = 1; i <= 3; ++i) {
    clients.push_back(std::make_unique<Client>(a, i));
    clients.back()->connect(b.ports.default_port_address(), 0x8000 + static_cast<std::uint32_t>(i));
  }
  for (int i = 0; i < 20; ++i) {
    for (auto& c : clients) c->run(world.now);
    world.step(world.now + 10 * kMillisecond);
  }
  EXPECT_FALSE(clients[0]->finished);
  EXPECT_FALSE(clients[1]->finished);
  EXPECT_TRUE(clients[2]->finished);
  EXPECT_EQ(clients[2]->last_status, 28);
  ASSERT_TRUE(b.cm.get_event(9).has_value());
  Client late(a, 4);
  late.connect(b.ports.default_port_address(), 0x8009);
  for (int i = 0; i < 20; ++i) {
    late.run(world.now);
    world.step(world.now + 10 * kMillisecond);
  }
  EXPECT_FALSE(late.finished);
  // Closing the listener's channel rejects all requests that waited.
  b.cm.close_channel(world.now, 9);
  for (int i = 0; i < 20; ++i) {
    for (auto& c : clients) c->run(world.now);
    late.run(world.now);
    world.step(world.now + 10 * kMillisecond);
  }
  EXPECT_TRUE(clients[0]->finished);
  EXPECT_TRUE(late.finished);
  EXPECT_EQ(b.cm.ids(), 0u);
}

TEST(LoadTest, TenThousandConnectionsInARowLeaveNothingBehind) {
  World world(9);
  Host& a = world.add_host();
  Host& b = world.add_host();
  Server server(b, kChannel);
  std::size_t most = 0;
  Client client(a, kChannel);
  for (std::uint32_t i = 0; i < 10'000; ++i) {
    client.finished = client.connected = false;
    ASSERT_EQ(client.connect(b.ports.default_port_address(), 0x4000 + i), 0);
    while (!client.finished) {
      client.run(world.now);
      server.run(world.now);
      if (client.finished) break;
      ASSERT_TRUE(world.step(world.now + kSecond));
    }
    ASSERT_TRUE(client.connected) << i;
    most = std::max(most, a.cm.agent().size() + b.cm.agent().size());
  }
  while (world.step()) server.run(world.now);
  EXPECT_EQ(a.cm.agent().size() + b.cm.agent().size(), 0u);
  EXPECT_EQ(a.cm.ids(), 0u);
  EXPECT_EQ(b.cm.ids(), 1u);
  EXPECT_LT(most, 14'000u);  // connections in timewait at this pace, on both sides
  EXPECT_TRUE(world.is_consistent());
}

TEST(LoadTest, AThousandConnectionsStandAtOnce) {
  World world(10);
  Host& a = world.add_host();
  Host& b = world.add_host();
  Server server(b, kChannel);
  std::vector<std::unique_ptr<Client>> clients;
  for (ChannelId i = 1; i <= 1000; ++i) {
    clients.push_back(std::make_unique<Client>(a, i));
    clients.back()->hangs_up = false;
    clients.back()->connect(b.ports.default_port_address(), 0x4000 + static_cast<std::uint32_t>(i));
  }
  do {
    for (auto& c : clients) c->run(world.now);
    server.run(world.now);
  } while (world.step(world.now + 60 * kSecond));
  EXPECT_EQ(server.seen[kEstablished], 1000);
  for (ChannelId i = 1; i <= 1000; ++i) a.cm.close_channel(world.now, i);
  while (world.step()) server.run(world.now);
  EXPECT_EQ(server.seen[kDisconnected], 1000);
  EXPECT_EQ(a.cm.agent().size() + b.cm.agent().size(), 0u);
  EXPECT_TRUE(world.is_consistent());
}

}  // namespace
}  // namespace verbena::cm::sim
