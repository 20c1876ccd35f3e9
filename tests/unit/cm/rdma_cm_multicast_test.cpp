// SPDX-License-Identifier: BSD-2-Clause
// Groups: which IDs may join, what the join reports, which group an address means, and when a
// membership ends.
#include <cerrno>

#include "rdma_cm_fixture.hpp"
#include "verbena/cm/multicast.hpp"

namespace verbena::cm {
namespace {

using sim::Host;
using sim::inet;
using sim::World;
using enum RdmaEventType;

TEST_F(RdmaCmTest, AMulticastMembershipReportsItselfAndEnds) {
  const IdHandle id = make(kUdp);
  std::uint32_t membership = 0;
  const SocketAddress group = inet(*IpAddress::parse("239.1.2.3"), 0);
  EXPECT_EQ(cm.join(1, id, 5, group, 0, membership), EINVAL) << "no device yet";
  bind(id, "10.0.0.1", 0);
  EXPECT_EQ(cm.join(1, id, 5, group, 2, membership), EINVAL) << "no such kind of membership";
  EXPECT_EQ(cm.join(1, id, 5, group, 1, membership), 0);
  const auto event = cm.get_event(1);
  EXPECT_EQ(event->type, kMulticastJoin);
  EXPECT_EQ(event->uid, 5u);
  EXPECT_EQ(event->id, membership);
  const UdParam& ud = std::get<UdParam>(event->param);
  EXPECT_EQ(ud.qp_num, 0xffffffu);
  EXPECT_EQ(ud.qkey, kUdpQkey);
  EXPECT_EQ(ud.ah.dgid.to_string(), "ff12:4001:ffff:0000:0000:0000:0f01:0203");
  EXPECT_GE(ud.ah.dlid, 0xc000);
  std::uint32_t withdrawn = 0;
  EXPECT_EQ(cm.leave(2, membership, reported, withdrawn), EINVAL);
  EXPECT_EQ(cm.leave(1, membership, reported, withdrawn), 0);
  EXPECT_EQ(reported, 1u);
  EXPECT_EQ(cm.leave(1, membership, reported, withdrawn), ENOENT);
  EXPECT_EQ(destroy(id), 0);
  EXPECT_EQ(reported, 1u);
}

// A program may make an ID whose uid is 0, and report broken promises that were never made.
TEST_F(RdmaCmTest, AMembershipThatHasEndedIsNotToldOfLater) {
  IdHandle id = 0;
  ASSERT_EQ(cm.create_id(1, 0, kUdp, 0, id), 0);
  bind(id, "10.0.0.1", 0);
  std::uint32_t membership = 0, withdrawn = 0;
  EXPECT_EQ(cm.join(1, id, 5, inet(*IpAddress::parse("239.1.2.3"), 0), 0, membership), 0);
  EXPECT_EQ(cm.leave(1, membership, reported, withdrawn), 0);
  cm.break_promise(1, id, 7, EINVAL);
  EXPECT_EQ(cm.get_event(1)->type, kConnectError);
  EXPECT_FALSE(cm.get_event(1));
}

// A subnet administrator answers with a group of its own choice. RoCE has no subnet administrator.
TEST(MulticastTest, WhoJoinsNoParticularGroupGetsANewOne) {
  for (const bool roce : {false, true}) {
    World world(1, roce);
    RdmaCm& cm = world.add_host().cm;
    cm.open_channel(1);
    IdHandle id = 0;
    cm.create_id(1, 77, kUdp, 0, id);
    cm.bind(1, id, inet(*IpAddress::parse("10.0.0.1"), 0));
    std::uint32_t membership = 0;
    const SocketAddress any = inet(IpAddress::v4(0), 0);
    ASSERT_EQ(cm.join(1, id, 5, any, 0, membership), roce ? EINVAL : 0);
    if (roce) continue;
    ASSERT_EQ(cm.join(1, id, 5, any, 0, membership), 0);
    const Gid first = std::get<UdParam>(cm.get_event(1)->param).ah.dgid;
    const Gid second = std::get<UdParam>(cm.get_event(1)->param).ah.dgid;
    EXPECT_EQ(first.to_string().substr(0, 20), "ff12:a01b:ffff:0000:");
    EXPECT_NE(first, second);
    // Others join the group by its GID, written as an IPv6 address.
    ASSERT_EQ(cm.join(1, id, 5, SocketAddress::of(first.as_ip(), 0), 0, membership), 0);
    EXPECT_EQ(std::get<UdParam>(cm.get_event(1)->param).ah.dgid, first);
  }
}

TEST_F(RdmaCmTest, TheSpaceOfIpoibHasItsOwnKeyAndGroups) {
  const IdHandle id = make(0x0002);
  ASSERT_EQ(bind(id, "10.0.0.1", 0), 0);
  std::uint32_t membership = 0;
  ASSERT_EQ(cm.join(1, id, 5, inet(*IpAddress::parse("239.1.2.3"), 0), 0, membership), 0);
  const auto event = cm.get_event(1);
  const UdParam& ud = std::get<UdParam>(event->param);
  EXPECT_EQ(ud.qkey, kIpoibQkey);
  EXPECT_EQ(ud.ah.dgid.to_string(), "ff12:401b:ffff:0000:0000:0000:0f01:0203");
  QpAttr attr;
  ASSERT_EQ(cm.init_qp_attr(1, id, 1, attr), 0);
  EXPECT_EQ(attr.qkey, kIpoibQkey);
}

TEST(PortDownTest, EndsMembershipsOnInfiniBandOnly) {
  for (const bool roce : {false, true}) {
    World world(1, roce);
    Host& host = world.add_host();
    RdmaCm& cm = host.cm;
    cm.open_channel(1);
    IdHandle id = 0;
    std::uint32_t membership = 0;
    cm.create_id(1, 77, kUdp, 0, id);
    cm.bind(1, id, inet(*IpAddress::parse("10.0.0.1"), 0));
    ASSERT_EQ(cm.join(1, id, 5, inet(*IpAddress::parse("239.1.2.3"), 0), 0, membership), 0);
    EXPECT_EQ(cm.get_event(1)->type, kMulticastJoin);
    cm.handle_port_down(2);
    EXPECT_FALSE(cm.has_pending_events()) << "another port";
    cm.handle_port_down(1);
    ASSERT_EQ(cm.has_pending_events(), !roce);
    std::uint32_t reported = 0;
    std::uint32_t withdrawn = 0;
    if (!roce) {
      const auto event = cm.get_event(1);
      EXPECT_EQ(event->type, kMulticastError);
      EXPECT_EQ(event->status, -ENETRESET);
      EXPECT_EQ(event->uid, 5u);
      EXPECT_EQ(event->id, membership);
    }
    cm.handle_port_down(1);
    EXPECT_FALSE(cm.has_pending_events()) << "it has ended already";
    EXPECT_EQ(cm.leave(1, membership, reported, withdrawn), 0);
    EXPECT_EQ(reported, roce ? 1u : 2u);
  }
}

TEST(MulticastTest, GroupsMapAsIpoibAndRoceDefineIt) {
  const SocketAddress v4 = inet(*IpAddress::parse("224.0.0.251"), 0);
  const SocketAddress v6 = SocketAddress::of(*IpAddress::parse("ff05::1:2:3:4"), 0);
  EXPECT_EQ(mgid_of(v4, PortSpace::kIpoib, false).to_string(),
            "ff12:401b:ffff:0000:0000:0000:0000:00fb");
  EXPECT_EQ(mgid_of(v4, PortSpace::kUdp, true).to_string(),
            "0000:0000:0000:0000:0000:ffff:e000:00fb");
  EXPECT_EQ(mgid_of(v6, PortSpace::kUdp, false).to_string(),
            "ff12:6001:ffff:0000:0001:0002:0003:0004");
  EXPECT_EQ(mgid_of(v6, PortSpace::kUdp, true), Gid::from_ip(v6.ip));
}

}  // namespace
}  // namespace verbena::cm
