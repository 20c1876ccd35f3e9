// SPDX-License-Identifier: BSD-2-Clause
// Tests which devices the emulator makes of a user's wishes.
#include "verbena/fabric/plan.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace verbena::fabric {
namespace {

IpAddress ip(const char* text) { return *IpAddress::parse(text); }

Host host() {
  return {1000,
          "tulip",
          "0.1.0",
          {{ip("127.0.0.1"), 8, "lo", 1, 65536, true},
           {ip("10.1.0.9"), 24, "eth0", 2, 1500, false},
           {ip("10.1.0.7"), 24, "eth0", 2, 1500, false},
           {ip("2001:db8::5"), 64, "eth0", 2, 9000, false}},
          0xff234566};
}

std::vector<control::DeviceInfo> planned(const settings::Settings& wishes) {
  auto devices = plan_devices(wishes, host());
  EXPECT_TRUE(devices.ok()) << devices.error().text;
  return devices ? *devices : std::vector<control::DeviceInfo>{};
}

std::string refusal(const settings::Settings& wishes) {
  const auto devices = plan_devices(wishes, host());
  EXPECT_FALSE(devices.ok());
  return devices ? "" : devices.error().text;
}

TEST(Plan, NoWishesMakeOneInfiniBandDevice) {
  const auto devices = planned({});
  ASSERT_EQ(devices.size(), 1u);
  const control::DeviceInfo& d = devices[0];
  EXPECT_EQ(d.name, "verbena0");
  EXPECT_EQ(d.persona, control::Persona::kInfiniBand);
  EXPECT_EQ(d.address, ip("127.4.232.1"));
  EXPECT_EQ(d.lid, 1);
  EXPECT_EQ(d.sm_lid, 1);
  EXPECT_EQ(d.subnet, ip("127.4.232.0"));
  EXPECT_EQ(d.prefix_length, 24);
  EXPECT_EQ(d.uverbs_number, 192u);
  EXPECT_EQ(d.netlink_index, 0x48d15980u);
  EXPECT_EQ(d.active_mtu, 5);
  EXPECT_EQ(d.node_guid, 0x025652017f04e801u);
  ASSERT_EQ(d.gids.size(), 8u);
  EXPECT_TRUE(d.gids[1].gid.is_zero());
  EXPECT_EQ(d.gids[0].gid, Gid::link_local(0x025652007f04e801u));
  EXPECT_EQ(d.gids[0].type, control::GidType::kInfiniBand);
  EXPECT_EQ(d.gids[0].if_name, "lo");
  EXPECT_EQ(d.pkeys, std::vector<std::uint16_t>{0xffff});
  EXPECT_EQ(d.node_description, "tulip verbena0");
}

TEST(Plan, ARoceAddressMakesARoceDevice) {
  settings::Settings wishes;
  wishes.roce = {ip("10.1.0.7"), ip("2001:db8::5")};
  wishes.devices = {"mlx5_0", "mlx5_1", "ib"};
  const auto devices = planned(wishes);
  ASSERT_EQ(devices.size(), 3u);
  EXPECT_EQ(devices[0].name, "mlx5_0");
  EXPECT_EQ(devices[0].persona, control::Persona::kRoce);
  EXPECT_EQ(devices[0].lid, 0);
  EXPECT_EQ(devices[0].subnet, ip("10.1.0.0"));
  EXPECT_EQ(devices[0].active_mtu, 3) << "1024 octets fit in an Ethernet frame";
  EXPECT_EQ(devices[1].active_mtu, 5) << "4096 fit in a jumbo frame";
  EXPECT_EQ(devices[2].persona, control::Persona::kInfiniBand);
  EXPECT_EQ(devices[2].lid, 1);
}

TEST(Plan, TheGidTableOfARoceDeviceIsAsOnMlx5) {
  settings::Settings wishes;
  wishes.roce = {ip("10.1.0.7"), ip("2001:db8::5")};
  const auto devices = planned(wishes);
  for (const control::DeviceInfo& d : devices) {
    ASSERT_EQ(d.gids.size(), 16u);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(d.gids[i].type, i % 2 == 0 ? control::GidType::kRoceV1 : control::GidType::kRoceV2);
      EXPECT_EQ(d.gids[i].if_name, "eth0");
      EXPECT_EQ(d.gids[i].if_index, 2u);
    }
    for (std::size_t i : {2, 3}) EXPECT_EQ(d.gids[i].gid, Gid::from_ip(d.address));
  }
  for (std::size_t i : {0, 1}) {
    EXPECT_EQ(devices[0].gids[i].gid, Gid::link_local(0x025652020a010007u));
    EXPECT_EQ(devices[1].gids[i].gid, Gid::from_ip(ip("2001:db8::5")));
  }
}

Interface on_eth0(const char* address) { return {ip(address), 24, "eth0", 2, 1500, false}; }

std::vector<std::string> rows_of(const control::DeviceInfo& d) {
  std::vector<std::string> rows;
  for (std::size_t i = 1; i < d.gids.size(); i += 2) {
    EXPECT_EQ(d.gids[i].gid, d.gids[i - 1].gid);
    rows.push_back(d.gids[i].gid.is_zero() ? "" : d.gids[i].gid.as_ip().to_string());
  }
  while (!rows.empty() && rows.back().empty()) rows.pop_back();
  return rows;
}

TEST(Plan, FurtherAddressesOfAnInterfaceHaveRowsWhileTheyAreThere) {
  settings::Settings wishes;
  wishes.roce = {ip("10.1.0.7")};
  auto devices = plan_devices(wishes, {1000, "tulip", "0.1.0", {on_eth0("10.1.0.7")}});
  ASSERT_TRUE(devices.ok());
  control::DeviceInfo& d = devices->front();
  const std::string own = Gid::link_local(d.port_guid).as_ip().to_string();
  const std::string local = ip("fe80::5").to_string();
  using Rows = std::vector<std::string>;
  EXPECT_EQ(rows_of(d), (Rows{own, "10.1.0.7"}));
  follow_interfaces(*devices, {on_eth0("fe80::5"),
                               on_eth0("10.1.0.7"),
                               on_eth0("10.1.0.8"),
                               {ip("10.2.0.1"), 24, "eth1", 3, 1500, false}});
  EXPECT_EQ(rows_of(d), (Rows{own, "10.1.0.7", "10.1.0.8", local}));
  follow_interfaces(*devices, {on_eth0("fe80::5"), on_eth0("10.1.0.7"), on_eth0("10.1.0.9")});
  EXPECT_EQ(rows_of(d), (Rows{own, "10.1.0.7", "10.1.0.9", local}));
  // The device's own address goes. Its rows are not given to other addresses.
  follow_interfaces(*devices, {on_eth0("10.1.0.9"), on_eth0("10.1.0.10")});
  EXPECT_EQ(rows_of(d), (Rows{"", "", "10.1.0.9", "10.1.0.10"}));
  follow_interfaces(*devices, {on_eth0("10.1.0.10"), on_eth0("10.1.0.7")});
  EXPECT_EQ(rows_of(d), (Rows{own, "10.1.0.7", "", "10.1.0.10"}));
}

TEST(Plan, AnAddressIsTheDevicesThatWasMadeForIt) {
  settings::Settings wishes;
  wishes.roce = {ip("10.1.0.7"), ip("10.1.0.9")};
  const auto devices = planned(wishes);
  EXPECT_EQ(rows_of(devices[0]).size(), 3u);  // including 2001:db8::5
  EXPECT_EQ(rows_of(devices[1]).size(), 2u);
}

TEST(Plan, OfALoopbackInterfaceAPortHasItsOwnAddressOnly) {
  settings::Settings wishes;
  wishes.roce = {ip("127.0.0.1")};
  const auto devices = plan_devices(wishes, {0,
                                             "tulip",
                                             "0.1.0",
                                             {{ip("127.0.0.1"), 8, "lo", 1, 65536, true},
                                              {ip("::1"), 128, "lo", 1, 65536, true}}});
  ASSERT_TRUE(devices.ok());
  EXPECT_EQ(rows_of(devices->front()).size(), 2u);
}

TEST(Plan, APortOfAnIpv6AddressHasTheLinkLocalOneFirst) {
  settings::Settings wishes;
  wishes.roce = {ip("2001:db8::5")};
  const auto devices = plan_devices(
      wishes,
      {0, "tulip", "0.1.0", {on_eth0("2001:db8::5"), on_eth0("fe80::7"), on_eth0("10.1.0.3")}});
  ASSERT_TRUE(devices.ok());
  EXPECT_EQ(rows_of(devices->front()),
            (std::vector<std::string>{ip("fe80::7").to_string(), ip("2001:db8::5").to_string(),
                                      "10.1.0.3"}));
}

TEST(Plan, TheMtuFollowsTheInterface) {
  settings::Settings wishes;
  wishes.roce = {ip("10.1.0.7")};
  auto devices = plan_devices(wishes, {0, "tulip", "0.1.0", {on_eth0("10.1.0.7")}});
  ASSERT_TRUE(devices.ok());
  EXPECT_EQ(devices->front().active_mtu, 3);
  Interface jumbo = on_eth0("10.1.0.7");
  jumbo.mtu = 9000;
  follow_interfaces(*devices, {jumbo});
  EXPECT_EQ(devices->front().active_mtu, 5);
}

TEST(Plan, NamesAreFilledUp) {
  settings::Settings wishes;
  wishes.roce = {ip("10.1.0.7"), ip("10.1.0.9")};
  wishes.devices = {"verbena0"};
  const auto devices = planned(wishes);
  EXPECT_EQ(devices[1].name, "verbena1");
}

TEST(Plan, AFabricOfManyHostsTakesThisHostsAddresses) {
  settings::Settings wishes;
  wishes.fabric = *settings::parse_fabric("10.1.0.0/24");
  wishes.devices = {"a", "b"};
  const auto devices = planned(wishes);
  EXPECT_EQ(devices[0].lid, 7);
  EXPECT_EQ(devices[1].lid, 9);
  for (const control::DeviceInfo& d : devices) EXPECT_EQ(d.sm_lid, 1) << "one for the whole fabric";
  wishes.fabric = *settings::parse_fabric("10.1.0.9/24");
  wishes.devices = {"a"};
  EXPECT_EQ(planned(wishes)[0].lid, 9);
}

TEST(Plan, APortHasALid) {
  settings::Settings wishes;
  wishes.fabric = *settings::parse_fabric("127.201.13.254/24");
  wishes.devices = {"a", "b"};
  EXPECT_EQ(planned(wishes)[1].lid, 255);
  wishes.devices = {"a", "b", "c"};
  EXPECT_NE(refusal(wishes).find("fabric 127.201.13.254/24 has 2 usable address(es) from "
                                 "127.201.13.254 on for 3 device(s)"),
            std::string::npos)
      << refusal(wishes);
  wishes.fabric = *settings::parse_fabric("127.201.13.4/30");
  wishes.devices = {"a", "b", "c", "d", "e"};
  EXPECT_NE(refusal(wishes).find("fabric 127.201.13.4/30 has 3 usable"), std::string::npos)
      << refusal(wishes);
  wishes.devices.pop_back();
  EXPECT_NE(refusal(wishes).find("has 3 usable"), std::string::npos) << refusal(wishes);
  Host far = host();
  far.interfaces = {on_eth0("10.1.192.1"), on_eth0("10.1.191.255")};
  wishes.fabric = *settings::parse_fabric("10.1.0.0/16");
  wishes.devices = {"a", "b"};
  EXPECT_FALSE(plan_devices(wishes, far).ok()) << "0xc001 is no LID of one port";
  wishes.devices = {"a"};
  EXPECT_EQ(plan_devices(wishes, far)->front().lid, 0xbfff);
}

TEST(Plan, WhatCannotBeIsSaid) {
  settings::Settings wishes;
  wishes.roce = {ip("192.0.2.1")};
  EXPECT_NE(refusal(wishes).find("192.0.2.1 is not an address of this host"), std::string::npos);
  for (const char* address : {"127.0.0.0", "127.255.255.255"}) {
    wishes.roce = {ip(address)};
    EXPECT_NE(refusal(wishes).find("a broadcast address of the loopback"), std::string::npos);
  }
  wishes = {};
  wishes.fabric = *settings::parse_fabric("172.16.0.0/24");
  EXPECT_NE(refusal(wishes).find("0 usable address(es) in fabric 172.16.0.0/24"),
            std::string::npos);
  wishes = {};
  wishes.devices = {"a", "a"};
  EXPECT_NE(refusal(wishes).find("same name"), std::string::npos);
  wishes = {};
  wishes.roce = {ip("10.1.0.7"), ip("10.1.0.7")};
  EXPECT_NE(refusal(wishes).find("the address 10.1.0.7"), std::string::npos);
  wishes = {};
  wishes.fabric = *settings::parse_fabric("127.9.9.0/30");
  wishes.devices = {"a", "b", "c", "d"};
  EXPECT_NE(refusal(wishes).find("3 usable"), std::string::npos) << refusal(wishes);
}

}  // namespace
}  // namespace verbena::fabric
