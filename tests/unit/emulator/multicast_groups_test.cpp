// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/fabric/multicast_groups.hpp"

#include <gtest/gtest.h>

namespace verbena::fabric {
namespace {

const Gid kGroup = Gid::from_ip(*IpAddress::parse("239.1.1.1"));
// The IPoIB form of the same IPv4 group.
const Gid kTwin = Gid::from_ip(*IpAddress::parse("ff12:401b:ffff::0f01:0101"));

TEST(MulticastGroups, EachContextOnce) {
  MulticastGroups groups(true);
  EXPECT_TRUE(groups.join(kGroup, 1, 0x4001));
  EXPECT_TRUE(groups.join(kGroup, 1, 0x4002));
  EXPECT_FALSE(groups.join(kGroup, 1, 0x4002));
  EXPECT_TRUE(groups.join(kGroup, 2, 0x8001));
  const auto members = groups.members_of(*IpAddress::parse("239.1.1.1"));
  EXPECT_EQ(members, (std::vector<MulticastGroups::Member>{{kGroup, 1}, {kGroup, 2}}));
  EXPECT_EQ(groups.memberships_of(1), 2u);
  EXPECT_TRUE(groups.leave(kGroup, 1, 0x4001));
  EXPECT_FALSE(groups.leave(kGroup, 1, 0x4001));
  EXPECT_EQ(groups.members_of(*IpAddress::parse("239.1.1.1")).size(), 2u);
}

TEST(MulticastGroups, TwoMgidsOfOneIpGroup) {
  MulticastGroups groups(true);
  groups.join(kGroup, 1, 1);
  groups.join(kTwin, 1, 2);
  EXPECT_EQ(groups.groups().size(), 1u);
  EXPECT_EQ(groups.members_of(*IpAddress::parse("239.1.1.1")).size(), 2u);
}

TEST(MulticastGroups, TheDeadAreInNoGroup) {
  MulticastGroups groups(true);
  groups.join(kGroup, 1, 1);
  groups.join(kTwin, 1, 1);
  groups.join(kTwin, 2, 1);
  groups.leave_all(1);
  EXPECT_EQ(groups.memberships_of(1), 0u);
  EXPECT_EQ(groups.groups().size(), 1u);
  groups.leave_all(2);
  EXPECT_TRUE(groups.groups().empty());
}

}  // namespace
}  // namespace verbena::fabric
