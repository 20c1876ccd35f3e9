// SPDX-License-Identifier: BSD-2-Clause
// The rdma_cm layer by its calls alone: ports and addresses as the kernel assigns them, which calls
// a state allows, exact counts of events, migration, options, shares.
#include "verbena/cm/rdma_cm.hpp"

#include <cerrno>
#include <set>
#include <string>
#include <vector>

#include "rdma_cm_fixture.hpp"

namespace verbena::cm {
namespace {

using sim::Client;
using sim::Host;
using sim::inet;
using sim::Server;
using sim::World;
using enum RdmaEventType;

TEST_F(RdmaCmTest, OnlyTheFourPortSpacesExist) {
  IdHandle id = 0;
  EXPECT_EQ(cm.create_id(1, 1, 0x107, 0, id), EINVAL);
  EXPECT_EQ(cm.create_id(1, 1, kIb, 2, id), 0);
  EXPECT_EQ(cm.create_id(1, 1, kIb, 99, id), EINVAL);
  EXPECT_EQ(cm.create_id(3, 1, kTcp, 2, id), EINVAL) << "a channel that was never opened";
  EXPECT_GE(id, IdTable::kFirstHandle);
  EXPECT_LT(id, 0x10000u);
}

TEST_F(RdmaCmTest, AnIdAnswersOnlyToItsChannel) {
  const IdHandle id = make();
  EXPECT_EQ(cm.bind(2, id, inet(IpAddress::v4(0), 1)), EINVAL);
  EXPECT_EQ(cm.bind(1, id + 1, inet(IpAddress::v4(0), 1)), ENOENT);
  EXPECT_EQ(destroy(id, 2), EINVAL);
  EXPECT_EQ(destroy(id), 0);
  EXPECT_EQ(destroy(id), ENOENT);
}

TEST_F(RdmaCmTest, TheSameAddressTwiceIsInUseAndAWildcardIsInTheWay) {
  EXPECT_EQ(bind(make(), "10.0.0.1", 5000), 0);
  EXPECT_EQ(bind(make(), "10.0.0.1", 5000), EADDRINUSE);
  EXPECT_EQ(bind(make(), "127.0.0.1", 5000), 0);
  EXPECT_EQ(bind(make(), "0.0.0.0", 5000), EADDRNOTAVAIL);
  EXPECT_EQ(bind(make(kUdp), "0.0.0.0", 5000), 0) << "another port space";
  EXPECT_EQ(bind(make(), "10.9.9.9", 5001), EADDRNOTAVAIL) << "not an address of this host";
}

// As Linux does.
TEST_F(RdmaCmTest, NoInterfaceHasAV4MappedAddress) {
  SocketAddress mapped = inet(IpAddress::v4(0x0a000001), 5000);
  mapped.family = Family::kInet6;
  const IdHandle id = make();
  EXPECT_EQ(cm.bind(1, id, mapped), EADDRNOTAVAIL);
  mapped.ip = IpAddress::v4(0x7f000001);
  EXPECT_EQ(cm.bind(1, id, mapped), EADDRNOTAVAIL);
  EXPECT_EQ(cm.resolve_addr(1, id, {}, mapped, kNever), ENETUNREACH);
}

TEST_F(RdmaCmTest, ALinkLocalAddressWantsAScope) {
  const IdHandle id = make();
  for (const char* text : {"fe80::1", "febf::1", "ff02::1"}) {
    SocketAddress there = SocketAddress::of(*IpAddress::parse(text), 5000);
    EXPECT_EQ(cm.bind(1, id, there), EINVAL) << text;
    there.scope_id = 1;
    EXPECT_EQ(cm.bind(1, id, there), EADDRNOTAVAIL) << text << ", which this host has not";
  }
  EXPECT_EQ(cm.bind(1, id, SocketAddress::of(*IpAddress::parse("fec0::1"), 1)), EADDRNOTAVAIL);
}

TEST_F(RdmaCmTest, AReusedPortIsSharedUntilSomebodyListens) {
  const IdHandle a = make();
  const IdHandle b = make();
  const IdHandle c = make();
  for (const IdHandle id : {a, b, c}) EXPECT_EQ(set_option(id, 1, 1), 0);
  EXPECT_EQ(bind(a, "0.0.0.0", 5000), 0);
  EXPECT_EQ(bind(b, "0.0.0.0", 5000), 0);
  EXPECT_EQ(cm.listen(world.now, 1, a, 0), EADDRNOTAVAIL);
  EXPECT_EQ(destroy(b), 0);
  EXPECT_EQ(cm.listen(world.now, 1, a, 0), 0);
  EXPECT_EQ(bind(c, "0.0.0.0", 5000), EADDRNOTAVAIL);
}

TEST_F(RdmaCmTest, BothFamiliesShareAPortOnlyWhenEachKeepsToItself) {
  const SocketAddress any6 = SocketAddress::of(IpAddress::v6({}), 5000);
  const IdHandle v4 = make();
  const IdHandle v6 = make();
  EXPECT_EQ(bind(v4, "0.0.0.0", 5000), 0);
  EXPECT_EQ(cm.bind(1, v6, any6), EADDRNOTAVAIL);
  const IdHandle only6 = make();
  EXPECT_EQ(set_option(only6, 2, 1), 0);
  EXPECT_EQ(cm.bind(1, only6, any6), 0);
  EXPECT_EQ(cm.listen(world.now, 1, v4, 0), 0);
  EXPECT_EQ(cm.listen(world.now, 1, only6, 0), 0);
}

TEST_F(RdmaCmTest, PortZeroIsAnEphemeralPortAndComesBack) {
  for (int i = 0; i < 200; ++i) {
    const IdHandle id = make();
    ASSERT_EQ(bind(id, "127.0.0.1", 0), 0);
    RouteInfo info;
    ASSERT_EQ(cm.query(1, id, info), 0);
    EXPECT_GE(info.source.port, 32768);
    EXPECT_LE(info.source.port, 60999);
    EXPECT_EQ(info.port, host.ports.default_port());
    ASSERT_EQ(destroy(id), 0);
  }
  EXPECT_EQ(cm.port_table().ports_in_use(), 0u);
}

TEST_F(RdmaCmTest, AWildcardHasNoDevice) {
  const IdHandle id = make();
  bind(id, "0.0.0.0", 5000);
  RouteInfo info;
  cm.query(1, id, info);
  EXPECT_EQ(info.port, nullptr);
  QpAttr attr;
  EXPECT_EQ(cm.init_qp_attr(1, id, 1, attr), EINVAL);
}

TEST_F(RdmaCmTest, EachCallHasItsState) {
  const IdHandle id = make();
  EXPECT_EQ(cm.resolve_route(1, id), EINVAL);
  EXPECT_EQ(cm.connect(world.now, 1, id, ConnParam{}, Ece{}), EINVAL);
  EXPECT_EQ(cm.accept(world.now, 1, id, 1, nullptr, Ece{}), EINVAL);
  EXPECT_EQ(cm.disconnect(world.now, 1, id), EINVAL);
  EXPECT_EQ(cm.reject(world.now, 1, id, 0, {}), EINVAL);
  EXPECT_EQ(cm.notify(world.now, 1, id, 4), EINVAL);
  EXPECT_EQ(bind(id, "127.0.0.1", 0), 0);
  EXPECT_EQ(bind(id, "127.0.0.1", 0), EINVAL);
  EXPECT_EQ(cm.resolve_addr(1, id, {}, inet(*IpAddress::parse("127.0.0.1"), 1)), 0);
  EXPECT_EQ(cm.listen(world.now, 1, id, 1), EINVAL);
  EXPECT_EQ(cm.get_event(1)->type, kAddrResolved);
  EXPECT_EQ(cm.resolve_route(1, id), 0);
  EXPECT_EQ(cm.get_event(1)->type, kRouteResolved);
  EXPECT_EQ(cm.get_event(1), std::nullopt);
}

TEST_F(RdmaCmTest, PrivateDataThatDoesNotFitIsRefused) {
  const IdHandle id = make();
  cm.resolve_addr(1, id, {}, inet(*IpAddress::parse("127.0.0.1"), 1));
  cm.resolve_route(1, id);
  ConnParam param;
  param.private_data.size = 57;  // 92 bytes minus the IP header
  EXPECT_EQ(cm.connect(world.now, 1, id, param, Ece{}), EINVAL);
  param.private_data.size = 56;
  EXPECT_EQ(cm.connect(world.now, 1, id, param, Ece{}), 0);
}

TEST_F(RdmaCmTest, AnAddressWithoutADeviceIsAnEventAndOneWithoutARouteAnError) {
  const IdHandle id = make();
  // The host's route to this address uses an interface that carries no device.
  EXPECT_EQ(cm.resolve_addr(1, id, {}, inet(*IpAddress::parse("8.8.8.8"), 1)), 0);
  const auto event = cm.get_event(1);
  EXPECT_EQ(event->type, kAddrError);
  EXPECT_EQ(event->status, -ENODEV);
  SocketAddress v6 = SocketAddress::of(*IpAddress::parse("2001:db8::1"), 1);
  EXPECT_EQ(cm.resolve_addr(1, make(), {}, v6), ENETUNREACH);
  SocketAddress other = SocketAddress::of(*IpAddress::parse("::1"), 1);
  EXPECT_EQ(cm.resolve_addr(1, make(), inet(IpAddress::v4(0), 0), other), EINVAL);
}

TEST(PortDownTest, LeadsToNoAddressAndOnInfiniBandToNoRoute) {
  for (const bool roce : {false, true}) {
    World world(1, roce);
    Host& host = world.add_host();
    RdmaCm& cm = host.cm;
    cm.open_channel(1);
    const SocketAddress there = inet(*IpAddress::parse("127.0.0.1"), 1);
    IdHandle resolved = 0;
    IdHandle late = 0;
    cm.create_id(1, 77, kTcp, 0, resolved);
    cm.create_id(1, 78, kTcp, 0, late);
    ASSERT_EQ(cm.resolve_addr(1, resolved, {}, there), 0);
    EXPECT_EQ(cm.get_event(1)->type, kAddrResolved);
    host.ports.up = false;
    EXPECT_EQ(cm.resolve_addr(1, late, {}, there), 0);
    auto event = cm.get_event(1);
    EXPECT_EQ(event->type, kAddrError);
    EXPECT_EQ(event->status, -ENODEV);
    EXPECT_EQ(cm.resolve_route(1, resolved), 0);
    event = cm.get_event(1);
    EXPECT_EQ(event->type, roce ? kRouteResolved : kRouteError);
    EXPECT_EQ(event->status, roce ? 0 : -ETIMEDOUT);
    host.ports.up = true;
    EXPECT_EQ(cm.resolve_route(1, resolved), roce ? EINVAL : 0) << "asked again";
  }
}

TEST_F(RdmaCmTest, AChangedHardwareAddressIsToldToEachIdOfTheDevice) {
  const IdHandle bound = make();
  const IdHandle wildcard = make(kTcp, 2);
  const IdHandle datagrams = make(kUdp);
  bind(bound, "127.0.0.1", 0);
  cm.bind(2, wildcard, inet(IpAddress::v4(0), 5000));
  bind(datagrams, "10.0.0.1", 0);
  cm.handle_address_change(2);
  EXPECT_FALSE(cm.has_pending_events()) << "another device";
  cm.handle_address_change(1);
  std::set<IdHandle> told;
  while (const auto event = cm.get_event(1)) {
    EXPECT_EQ(event->type, kAddrChange);
    EXPECT_EQ(event->status, 0);
    told.insert(event->id);
  }
  EXPECT_EQ(told, (std::set{bound, datagrams}));
  EXPECT_EQ(cm.pending_events(2), 0u) << "a wildcard has no device";
  EXPECT_EQ(cm.listen(world.now, 1, bound, 1), 0) << "a hint, no more";
}

TEST_F(RdmaCmTest, EventsReportedCountsWhatWasHandedOutAndUnreadOnesVanish) {
  const IdHandle id = make();
  cm.resolve_addr(1, id, {}, inet(*IpAddress::parse("127.0.0.1"), 1));
  EXPECT_TRUE(cm.get_event(1).has_value());
  cm.resolve_route(1, id);
  std::uint32_t withdrawn = 0;
  EXPECT_EQ(cm.destroy_id(world.now, 1, id, reported, withdrawn), 0);
  EXPECT_EQ(reported, 1u);
  EXPECT_EQ(withdrawn, 1u);
  EXPECT_FALSE(cm.get_event(1).has_value());
}

TEST_F(RdmaCmTest, MigrationTakesUnreadEventsAlong) {
  const IdHandle id = make();
  cm.resolve_addr(1, id, {}, inet(*IpAddress::parse("127.0.0.1"), 1));
  cm.get_event(1);
  cm.resolve_route(1, id);
  std::uint32_t withdrawn = 0;
  EXPECT_EQ(cm.migrate(2, 2, id, reported, withdrawn), EINVAL);
  EXPECT_EQ(cm.migrate(2, 1, id, reported, withdrawn), 0);
  EXPECT_EQ(reported, 1u);
  EXPECT_EQ(withdrawn, 1u);
  EXPECT_FALSE(cm.get_event(1).has_value());
  EXPECT_EQ(cm.get_event(2)->type, kRouteResolved);
  EXPECT_EQ(cm.connect(world.now, 1, id, ConnParam{}, Ece{}), EINVAL);
  EXPECT_EQ(destroy(id, 2), 0);
  EXPECT_EQ(reported, 2u);
}

TEST_F(RdmaCmTest, OptionsHaveTheirSizes) {
  const IdHandle id = make();
  EXPECT_EQ(set_option(id, 0, 0x20, 1), 0);
  EXPECT_EQ(set_option(id, 0, 0x20, 4), EINVAL);
  EXPECT_EQ(set_option(id, 1, 1, 1), EINVAL);
  EXPECT_EQ(set_option(id, 3, 20, 1), 0);
  EXPECT_EQ(set_option(id, 9, 0), ENOSYS);
  EXPECT_EQ(cm.set_option(1, id, 7, 0, {}), ENOSYS);
  EXPECT_EQ(cm.set_option(1, id, 1, 1, {}), EINVAL);
  EXPECT_EQ(set_option(make(kUdp), 3, 20, 1), EINVAL) << "datagrams have no ACK timeout";
}

TEST_F(RdmaCmTest, AfIbWildcardsAreTakenAsTheLibraryProbesForThem) {
  IdHandle id = 0;
  cm.create_id(1, 1, kIb, 2, id);
  SocketAddress any;
  any.family = Family::kIb;
  any.service_id = service_id_of(PortSpace::kTcp, 0);
  any.service_mask = 0xffffffffffff0000;
  EXPECT_EQ(cm.bind(1, id, any), 0);
  RouteInfo info;
  cm.query(1, id, info);
  EXPECT_NE(info.source.port, 0);
  EXPECT_EQ(info.source.service_id >> 16, 0x106u);
  any.service_id = 0x7777770000;
  cm.create_id(1, 1, kIb, 2, id);
  EXPECT_EQ(cm.bind(1, id, any), EPROTONOSUPPORT);
}

TEST(AfIbTest, GidsConnectWithoutAnIpHeader) {
  World world(3);
  Host& a = world.add_host();
  Host& b = world.add_host();
  a.cm.open_channel(1);
  b.cm.open_channel(1);
  IdHandle listener = 0;
  b.cm.create_id(1, 1, kIb, 2, listener);
  SocketAddress address = SocketAddress::of_gid({}, service_id_of(PortSpace::kIb, 4711), 0);
  ASSERT_EQ(b.cm.bind(1, listener, address), 0);
  ASSERT_EQ(b.cm.listen(world.now, 1, listener, 0), 0);
  IdHandle id = 0;
  a.cm.create_id(1, 2, kIb, 2, id);
  address.ip = b.ports.default_port()->gid.as_ip();
  address.pkey = 0xffff;
  ASSERT_EQ(a.cm.resolve_addr(1, id, {}, address), 0);
  RouteInfo info;
  ASSERT_EQ(a.cm.query(1, id, info), 0);
  EXPECT_EQ(info.source.pkey, address.pkey) << "the partition in which the peer is";
  ASSERT_EQ(a.cm.resolve_route(1, id), 0);
  ConnParam param;
  param.private_data.assign(std::vector<std::uint8_t>(92, 0x5a));
  ASSERT_EQ(a.cm.connect(world.now, 1, id, param, Ece{}), 0);
  world.step();
  const auto request = b.cm.get_event(1);
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->type, kConnectRequest);
  EXPECT_EQ(std::get<ConnParam>(request->param).private_data.size, 92);
  EXPECT_EQ(std::get<ConnParam>(request->param).private_data.bytes[91], 0x5a);
}

TEST_F(RdmaCmTest, ADeviceThatGoesTellsEveryIdOnIt) {
  Server server(host, 10);
  Client client(host, 11);
  client.hangs_up = false;
  client.connect(*IpAddress::parse("127.0.0.1"));
  while (!client.connected) {
    client.run(world.now);
    server.run(world.now);
    if (!client.connected) {
      ASSERT_TRUE(world.step());
    }
  }
  while (world.step(world.now + sim::kSecond)) server.run(world.now);
  cm.remove_device(world.now, 1);
  host.ports.present = false;
  client.run(world.now);
  server.run(world.now);
  EXPECT_EQ(client.seen[kDeviceRemoval], 1);
  EXPECT_EQ(server.seen[kDeviceRemoval], 1) << "the connection; the listener has no device";
  QpAttr attr;
  EXPECT_EQ(cm.init_qp_attr(11, client.id, 2, attr), EINVAL);
  client.destroy(world.now);
  EXPECT_TRUE(cm.is_consistent());
}

// --- shares -----------------------------------------------------------------------------------

class SharesOfRdmaCm : public RdmaCmTest {
 protected:
  static constexpr limits::Holder kGreedy = 5;
  static constexpr limits::Holder kHonest = 6;
  static constexpr ChannelId kGreedyChannel = 11;
  static constexpr ChannelId kHonestChannel = 12;

  SharesOfRdmaCm() {
    cm.open_channel(kGreedyChannel, kGreedy);
    cm.open_channel(kHonestChannel, kHonest);
  }
  // Creates IDs until there is an error, and returns the error.
  int create_all() {
    IdHandle id = 0;
    for (;;) {
      if (const int error = cm.create_id(kGreedyChannel, 77, kTcp, 0, id)) return error;
      ids.push_back(id);
    }
  }
  std::vector<IdHandle> ids;
};

TEST_F(SharesOfRdmaCm, AProcessHasHalfOfAllIdentifiersAndNoMore) {
  EXPECT_EQ(create_all(), ENOMEM);
  EXPECT_EQ(ids.size(), Shares::kObjects / 2);
  EXPECT_NE(cm.take_reason().find("process 5 has 131072 rdma_cm identifiers"), std::string::npos);
  EXPECT_EQ(cm.take_reason(), "");
  // An unread event counts as well.
  EXPECT_EQ(destroy(ids.back(), kGreedyChannel), 0);
  ids.pop_back();
  constexpr auto kOwn = static_cast<std::uint32_t>(kUser);
  EXPECT_EQ(cm.write_event(kGreedyChannel, ids.back(), kOwn, 0, 0), 0);
  EXPECT_EQ(cm.write_event(kGreedyChannel, ids.back(), kOwn, 0, 0), ENOMEM);
  EXPECT_EQ(create_all(), ENOMEM);
  EXPECT_TRUE(cm.get_event(kGreedyChannel));
  EXPECT_EQ(cm.write_event(kGreedyChannel, ids.back(), kOwn, 0, 0), 0);
  const IdHandle other = make(kTcp, kHonestChannel);
  EXPECT_EQ(cm.bind(kHonestChannel, other, inet(*IpAddress::parse("0.0.0.0"), 0)), 0);
  cm.close_channel(world.now, kGreedyChannel);
  cm.open_channel(kGreedyChannel, kGreedy);
  ids.clear();
  EXPECT_EQ(create_all(), ENOMEM);
  EXPECT_GE(ids.size(), Shares::kObjects / 2 - 1);
  EXPECT_TRUE(cm.is_consistent());
}

TEST_F(SharesOfRdmaCm, WhoHasItsShareHearsNoNewsThatMayComeAnyNumberOfTimes) {
  const IdHandle id = make(kTcp, kGreedyChannel);
  EXPECT_EQ(cm.bind(kGreedyChannel, id, inet(*IpAddress::parse("10.0.0.1"), 0)), 0);
  cm.handle_address_change(1);
  EXPECT_EQ(cm.pending_events(kGreedyChannel), 1u);
  EXPECT_EQ(create_all(), ENOMEM);
  cm.handle_address_change(1);
  cm.break_promise(kGreedyChannel, id, 77, EINVAL);
  EXPECT_EQ(cm.pending_events(kGreedyChannel), 1u);
}

TEST_F(SharesOfRdmaCm, AnIdentifierThatMovesIsOfTheOthersShare) {
  EXPECT_EQ(create_all(), ENOMEM);
  std::uint32_t events = 0, withdrawn = 0;
  EXPECT_EQ(cm.migrate(kHonestChannel, kGreedyChannel, ids.back(), events, withdrawn), 0);
  ids.pop_back();
  EXPECT_EQ(create_all(), ENOMEM);
  EXPECT_EQ(ids.size(), Shares::kObjects / 2 - 1);
  cm.close_channel(world.now, kHonestChannel);
  EXPECT_EQ(create_all(), ENOMEM);
  EXPECT_EQ(ids.size(), Shares::kObjects / 2);
}

TEST_F(SharesOfRdmaCm, AProcessHasHalfOfAllPortsAndNoMore) {
  std::size_t bound = 0;
  int error = 0;
  const SocketAddress any = inet(*IpAddress::parse("0.0.0.0"), 0);
  while (error == 0) {
    const IdHandle id = make(kTcp, kGreedyChannel);
    error = cm.bind(kGreedyChannel, id, any);
    if (error == 0) ++bound;
  }
  EXPECT_EQ(error, EADDRNOTAVAIL);
  EXPECT_EQ(bound, Shares::kPorts / 2);
  EXPECT_NE(cm.take_reason().find("ports of rdma_cm"), std::string::npos);
  EXPECT_EQ(cm.bind(kHonestChannel, make(kTcp, kHonestChannel), any), 0);
}

}  // namespace
}  // namespace verbena::cm
