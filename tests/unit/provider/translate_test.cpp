// SPDX-License-Identifier: BSD-2-Clause
// Translation between the verbs' values and the engine's.
#include "verbena/verbs/translate.hpp"

#include <gtest/gtest.h>

namespace verbena::provider {
namespace {

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
