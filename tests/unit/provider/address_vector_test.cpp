// SPDX-License-Identifier: BSD-2-Clause
// Where address vectors lead.
#include "verbena/context/address_vector.hpp"

#include <gtest/gtest.h>

namespace verbena::provider {
namespace {

AddressPlan infiniband_plan() {
  AddressPlan plan;
  plan.infiniband = true;
  plan.subnet = 0x7f010000;
  plan.prefix_length = 24;
  return plan;
}

AddressPlan roce_plan() {
  AddressPlan plan;
  plan.infiniband = false;
  return plan;
}

ibv_gid verbs_gid(const Gid& gid) {
  ibv_gid out;
  std::memcpy(out.raw, gid.bytes.data(), sizeof out.raw);
  return out;
}

TEST(Path, LeadsToTheAddressOfALid) {
  ibv_ah_attr ah{};
  ah.dlid = 9;
  ah.port_num = 1;
  const qp::PathAttributes path = path_of(ah, infiniband_plan());
  EXPECT_TRUE(path.resolved);
  EXPECT_EQ(path.destination.address, IpAddress::v4(0x7f010009));
  EXPECT_FALSE(path.destination.has_grh);
}

TEST(Path, LeadsToTheAddressInAGid) {
  ibv_ah_attr ah{};
  ah.is_global = 1;
  ah.grh.dgid = verbs_gid(Gid::link_local(infiniband_plan().port_guid(0x7f010007)));
  ah.grh.hop_limit = 1;
  const qp::PathAttributes path = path_of(ah, infiniband_plan());
  EXPECT_TRUE(path.resolved);
  EXPECT_EQ(path.destination.address, IpAddress::v4(0x7f010007));
  EXPECT_TRUE(path.destination.has_grh);
  EXPECT_GT(path.destination.hop_limit, 1);
}

TEST(Path, OnRoceIsTheGidItself) {
  ibv_ah_attr ah{};
  ah.is_global = 1;
  ah.grh.dgid = verbs_gid(Gid::from_ip(IpAddress::v4(0xc0a80105)));
  EXPECT_EQ(path_of(ah, roce_plan()).destination.address, IpAddress::v4(0xc0a80105));
  ah.is_global = 0;
  ah.dlid = 5;
  EXPECT_FALSE(path_of(ah, roce_plan()).resolved);
}

TEST(Path, LeadsToTheAddressInTheDefaultGidOfARocePort) {
  ibv_ah_attr ah{};
  ah.is_global = 1;
  ah.grh.dgid = verbs_gid(Gid::link_local(roce_plan().port_guid(0xc0a80105)));
  EXPECT_EQ(path_of(ah, roce_plan()).destination.address, IpAddress::v4(0xc0a80105));
  EXPECT_FALSE(path_of(ah, infiniband_plan()).resolved);
}

TEST(Path, IsNoneBetweenThePortsOfTwoKinds) {
  ibv_ah_attr ah{};
  ah.is_global = 1;
  ah.grh.dgid = verbs_gid(Gid::link_local(infiniband_plan().port_guid(0x7f010007)));
  EXPECT_FALSE(path_of(ah, roce_plan()).resolved);
  ah.grh.dgid = verbs_gid(Gid::from_ip(IpAddress::v4(0x7f010007)));
  EXPECT_FALSE(path_of(ah, infiniband_plan()).resolved);
}

TEST(Path, IsNoneForALidOfNobody) {
  ibv_ah_attr ah{};
  EXPECT_FALSE(path_of(ah, infiniband_plan()).resolved);
  ah.dlid = 0x1234;
  EXPECT_FALSE(path_of(ah, infiniband_plan()).resolved);
}

TEST(Path, ComesBackAsItWasGiven) {
  ibv_ah_attr ah{};
  ah.is_global = 1;
  ah.grh.dgid = verbs_gid(Gid::link_local(infiniband_plan().port_guid(0x7f010007)));
  ah.grh.flow_label = 0x12345;
  ah.grh.hop_limit = 3;
  ah.grh.traffic_class = 96;
  ah.dlid = 7;
  ah.sl = 2;
  ah.port_num = 1;
  const ibv_ah_attr back = ah_attr_of(path_of(ah, infiniband_plan()));
  EXPECT_EQ(std::memcmp(back.grh.dgid.raw, ah.grh.dgid.raw, 16), 0);
  EXPECT_EQ(back.grh.flow_label, ah.grh.flow_label);
  EXPECT_EQ(back.grh.hop_limit, ah.grh.hop_limit);
  EXPECT_EQ(back.grh.traffic_class, ah.grh.traffic_class);
  EXPECT_EQ(back.dlid, ah.dlid);
  EXPECT_EQ(back.sl, ah.sl);
  EXPECT_EQ(back.port_num, ah.port_num);
  EXPECT_EQ(back.is_global, 1);
}

TEST(Path, TakesTwentyBitsOfTheFlowLabelAsAdaptersDo) {
  ibv_ah_attr ah{};
  ah.is_global = 1;
  ah.grh.dgid = verbs_gid(Gid::link_local(infiniband_plan().port_guid(0x7f010007)));
  ah.grh.flow_label = 0xffffffff;
  const qp::PathAttributes path = path_of(ah, infiniband_plan());
  EXPECT_EQ(path.flow_label, 0xfffffu);
  EXPECT_EQ(path.destination.flow_label, 0xfffffu);
}

}  // namespace
}  // namespace verbena::provider
