// SPDX-License-Identifier: BSD-2-Clause
// The verbs' values and the engine's.
#include "translate.hpp"

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
  const qp::Path path = path_of(ah, infiniband_plan());
  EXPECT_TRUE(path.resolved);
  EXPECT_EQ(path.destination.address, IpAddress::v4(0x7f010009));
  EXPECT_FALSE(path.destination.has_grh);
}

TEST(Path, LeadsToTheAddressInAGid) {
  ibv_ah_attr ah{};
  ah.is_global = 1;
  ah.grh.dgid = verbs_gid(Gid::link_local(infiniband_plan().port_guid(0x7f010007)));
  ah.grh.hop_limit = 1;
  const qp::Path path = path_of(ah, infiniband_plan());
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
  const qp::Path path = path_of(ah, infiniband_plan());
  EXPECT_EQ(path.flow_label, 0xfffffu);
  EXPECT_EQ(path.destination.flow_label, 0xfffffu);
}

TEST(Completion, HasTheVerbsFields) {
  queue::Completion c;
  c.id = 5;
  c.status = queue::Status::kRnrRetryExceeded;
  c.opcode = queue::CompletionOpcode::kReceiveWriteImmediate;
  c.byte_length = 100;
  c.immediate = 0x01020304;
  c.qpn = 0x4001;
  c.source_qpn = 0x8001;
  c.flags = queue::kHasGrh | queue::kHasImmediate;
  c.source_lid = 3;
  ibv_wc wc{};
  fill(wc, c);
  EXPECT_EQ(wc.wr_id, 5u);
  EXPECT_EQ(wc.status, IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(wc.byte_len, 100u);
  EXPECT_EQ(wc.imm_data, 0x01020304u);
  EXPECT_EQ(wc.qp_num, 0x4001u);
  EXPECT_EQ(wc.src_qp, 0x8001u);
  EXPECT_EQ(wc.wc_flags, static_cast<unsigned>(IBV_WC_GRH | IBV_WC_WITH_IMM));
  EXPECT_EQ(wc.slid, 3);
}

TEST(Completion, EveryStatusHasTheVerbsNumber) {
  const auto number = [](queue::Status s) { return static_cast<int>(s); };
  EXPECT_EQ(number(queue::Status::kLocalProtection), IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(number(queue::Status::kFlushed), IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(number(queue::Status::kRemoteAccess), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(number(queue::Status::kRetryExceeded), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(number(queue::Status::kGeneral), IBV_WC_GENERAL_ERR);
  EXPECT_EQ(number(queue::Status::kTagMatching), IBV_WC_TM_ERR);
  EXPECT_EQ(number(queue::Status::kTagRendezvousIncomplete), IBV_WC_TM_RNDV_INCOMPLETE);
}

TEST(Opcode, EveryRequestOfTheVerbsHasOne) {
  for (const unsigned opcode : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 14u, 15u}) {
    EXPECT_TRUE(opcode_of(static_cast<ibv_wr_opcode>(opcode)).has_value()) << opcode;
  }
  EXPECT_FALSE(opcode_of(IBV_WR_TSO).has_value());
  EXPECT_FALSE(opcode_of(IBV_WR_DRIVER1).has_value());
}

}  // namespace
}  // namespace verbena::provider
