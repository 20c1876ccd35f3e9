// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/control/address_plan.hpp"

#include <gtest/gtest.h>

#include <set>

namespace verbena::control {
namespace {

const IpAddress kFirst = IpAddress::v4(0x7f010001);

Subnet subnet(const char* base, int length) {
  return {*IpAddress::parse(base), static_cast<std::uint8_t>(length)};
}

TEST(AddressPlan, EachUserHasAPartOfLoopback) {
  EXPECT_EQ(default_subnet(0), subnet("127.1.0.0", 24));
  EXPECT_EQ(default_subnet(1000), subnet("127.4.232.0", 24));
  std::set<std::array<std::uint8_t, 16>> all;
  for (std::uint32_t uid = 0; uid < 65280; ++uid) all.insert(default_subnet(uid).base.bytes);
  EXPECT_EQ(all.size(), 65280u);
  // No subnet is 127.0.0.0/24, where everybody's servers are, or lies outside of 127.0.0.0/8.
  for (const auto& base : all) {
    EXPECT_EQ(base[12], 127);
    EXPECT_NE(base[13], 0);
  }
}

TEST(AddressPlan, PrivateSubnetsAreOfTheLoopbackNetAndNeverTheUsersOwn) {
  constexpr std::uint64_t kAll = 127 * 256 - 1;
  for (const std::uint32_t uid : {0u, 32512u, 40000u, 65023u}) {
    std::set<std::array<std::uint8_t, 16>> all;
    for (std::uint64_t n = 0; n < kAll; ++n) {
      const Subnet subnet = private_subnet(uid, n);
      EXPECT_TRUE(subnet.base.v4_host_order() >> 23 == 0x7f800000u >> 23 &&
                  subnet.prefix_length == 24);
      EXPECT_NE(subnet, default_subnet(uid));
      all.insert(subnet.base.bytes);
    }
    EXPECT_EQ(all.size(), kAll);
  }
  EXPECT_EQ(private_subnet(0, kAll + 3), private_subnet(0, 3));
}

TEST(AddressPlan, ALidIsTheHostPart) {
  const Subnet net = subnet("127.1.0.0", 24);
  EXPECT_EQ(lid_of(net, kFirst), 1);
  EXPECT_EQ(address_of_lid(net, 1), kFirst);
  EXPECT_EQ(lid_of(net, net.base), std::nullopt);
  EXPECT_EQ(lid_of(net, IpAddress::v4(0x7f020001)), std::nullopt);
  const Subnet wide = subnet("10.1.0.0", 16);
  for (const std::uint32_t lid : {1u, 255u, 256u, 0xbfffu}) {
    const IpAddress address = address_of_lid(wide, static_cast<std::uint16_t>(lid));
    EXPECT_EQ(lid_of(wide, address), lid);
  }
  EXPECT_EQ(lid_of(wide, IpAddress::v4(0x0a01c000)), std::nullopt) << "a multicast LID";
  const Subnet six = subnet("fd00:1::", 112);
  EXPECT_EQ(lid_of(six, *IpAddress::parse("fd00:1::17")), 0x17);
}

TEST(AddressPlan, GuidsHoldTheAddress) {
  EXPECT_EQ(port_guid_of(kFirst, Persona::kInfiniBand), 0x025652007f010001u);
  EXPECT_EQ(node_guid_of(kFirst), 0x025652017f010001u);
}

TEST(AddressPlan, GidsLeadBack) {
  EXPECT_EQ(address_of_gid(Gid::link_local(port_guid_of(kFirst, Persona::kInfiniBand))), kFirst);
  EXPECT_EQ(address_of_gid(Gid::from_ip(kFirst)), kFirst);
  const IpAddress six = *IpAddress::parse("2001:db8::5");
  EXPECT_EQ(address_of_gid(Gid::from_ip(six)), six);
  EXPECT_EQ(address_of_gid(Gid{}), std::nullopt);
  EXPECT_EQ(address_of_gid(Gid::from_ip(*IpAddress::parse("ff12::1"))), std::nullopt);
}

TEST(AddressPlan, MulticastGroups) {
  const auto gid = [](const char* text) { return Gid::from_ip(*IpAddress::parse(text)); };
  const IpAddress v4_group = *IpAddress::parse("239.1.1.1");
  EXPECT_EQ(group_of_mgid(Gid::from_ip(v4_group), true), v4_group);
  // The IPoIB form of a group contains the IPv4 group.
  EXPECT_EQ(group_of_mgid(gid("ff12:401b:ffff::0f01:0101"), true), v4_group);
  const IpAddress any = group_of_mgid(gid("ff0e::1:2:3"), true);
  EXPECT_TRUE(any.is_v4() && any.is_multicast());
  EXPECT_FALSE(any == group_of_mgid(gid("ff0e::1:2:4"), true));
  EXPECT_EQ(group_of_mgid(gid("ff0e::1:2:3"), false), *IpAddress::parse("ff0e::1:2:3"));
}

}  // namespace
}  // namespace verbena::control
