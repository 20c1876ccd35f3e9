// SPDX-License-Identifier: BSD-2-Clause
// Queue pairs whose requests are built with ibv_wr_*, and a completion queue whose fields are read
// with ibv_wc_read_*. left_ sends, right_ receives.
#pragma once

#include <endian.h>

#include <ctime>

#include "verbs_fixture.hpp"

namespace verbs_test {

// What all the functions of a completion return.
struct Done {
  std::uint64_t wr_id = 0;
  ibv_wc_status status = IBV_WC_GENERAL_ERR;
  ibv_wc_opcode opcode = IBV_WC_SEND;
  std::uint32_t vendor_err = 0;
  std::uint32_t byte_len = 0;
  __be32 imm_data = 0;
  std::uint32_t invalidated_rkey = 0;
  std::uint32_t qp_num = 0;
  std::uint32_t src_qp = 0;
  unsigned wc_flags = 0;
  std::uint32_t slid = 0;
  std::uint8_t sl = 0;
  std::uint8_t dlid_path_bits = 0;
  std::uint64_t completion_ts = 0;
  std::uint64_t wallclock_ns = 0;
  ibv_wc_tm_info tm{};
};

class Extended : public Verbs {
 protected:
  static constexpr std::uint32_t kDepth = 8;
  static constexpr std::uint32_t kInline = 64;
  static constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                 IBV_ACCESS_MW_BIND;
  static constexpr std::size_t kFar = 2048;  // where the requests' other end is

  void SetUp() override {
    Verbs::SetUp();
    ibv_cq_init_attr_ex init{};
    init.cqe = 100;
    init.wc_flags = IBV_CREATE_CQ_SUP_WC_FLAGS;
    for (ibv_cq_ex** cq : {&sends_, &receives_}) {
      *cq = ibv_create_cq_ex(context_, &init);
      ASSERT_NE(*cq, nullptr);
    }
    region_ = ibv_reg_mr(pd_, bytes_, sizeof bytes_, kAccess);
    ASSERT_NE(region_, nullptr);
  }
  void TearDown() override {
    for (ibv_ah* ah : ahs_) EXPECT_EQ(ibv_destroy_ah(ah), 0);
    for (ibv_qp* qp : qps_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    qps_.clear();
    for (ibv_mw* mw : windows_) EXPECT_EQ(ibv_dealloc_mw(mw), 0);
    if (srq_ != nullptr) {
      EXPECT_EQ(ibv_destroy_srq(srq_), 0);
      srq_ = nullptr;
    }
    if (domain_ != nullptr) {
      EXPECT_EQ(ibv_close_xrcd(domain_), 0);
    }
    for (ibv_cq_ex* cq : {sends_, receives_}) EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
    EXPECT_EQ(ibv_dereg_mr(region_), 0);
    Verbs::TearDown();
  }

  // Makes a queue pair with a builder of `operations`, in INIT.
  ibv_qp* make_builder(ibv_qp_type type, std::uint64_t operations) {
    ibv_qp_init_attr_ex init{};
    init.qp_type = type;
    init.send_cq = ibv_cq_ex_to_cq(sends_);
    init.recv_cq = ibv_cq_ex_to_cq(receives_);
    init.cap = {kDepth, kDepth, 2, 2, kInline};
    init.pd = pd_;
    init.srq = type == IBV_QPT_RC ? srq_ : nullptr;
    init.xrcd = domain_;
    init.comp_mask = type == IBV_QPT_XRC_RECV ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD;
    if (operations != 0) {
      init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
      init.send_ops_flags = operations;
    }
    ibv_qp* const qp = ibv_create_qp_ex(context_, &init);
    EXPECT_NE(qp, nullptr);
    if (qp == nullptr) return nullptr;
    qps_.push_back(qp);
    to_init(qp, type, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
    return qp;
  }
  void join(ibv_qp* left, ibv_qp* right) {
    left_ = left;
    right_ = right;
    ASSERT_TRUE(left_ != nullptr && right_ != nullptr);
    to_rtr(left_, right_);
    to_rtr(right_, left_);
    to_rts(left_);
    to_rts(right_);
  }
  void connect_rc() {
    constexpr std::uint64_t kAll =
        IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_SEND_WITH_INV |
        IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
        IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
        IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
    ibv_qp* const left = make_builder(IBV_QPT_RC, kAll);
    join(left, make_builder(IBV_QPT_RC, kAll));
  }

  std::uint64_t address(std::size_t offset) const {
    return reinterpret_cast<std::uintptr_t>(bytes_) + offset;
  }
  void expect_at(std::size_t offset, const std::string& text) const {
    EXPECT_EQ(std::string(bytes_ + offset, text.size()), text);
  }
  void put_at(std::size_t offset, const std::string& text) {
    std::memcpy(bytes_ + offset, text.data(), text.size());
  }
  std::uint64_t word_at(std::size_t offset) const {
    std::uint64_t word;
    std::memcpy(&word, bytes_ + offset, sizeof word);
    return word;
  }
  void set_word(std::size_t offset, std::uint64_t word) {
    std::memcpy(bytes_ + offset, &word, sizeof word);
  }

  // Posts what `add` adds to the builder of `qp`, signaled.
  template <typename Add>
  int build(ibv_qp* qp, Add&& add, std::uint64_t id = 9) {
    ibv_qp_ex* const q = ibv_qp_to_qp_ex(qp);
    ibv_wr_start(q);
    q->wr_id = id;
    q->wr_flags = IBV_SEND_SIGNALED;
    add(q);
    return ibv_wr_complete(q);
  }

  static Done fields_of(ibv_cq_ex* cq) {
    Done d;
    d.wr_id = cq->wr_id;
    d.status = cq->status;
    d.opcode = ibv_wc_read_opcode(cq);
    d.vendor_err = ibv_wc_read_vendor_err(cq);
    d.byte_len = ibv_wc_read_byte_len(cq);
    d.imm_data = ibv_wc_read_imm_data(cq);
    d.invalidated_rkey = ibv_wc_read_invalidated_rkey(cq);
    d.qp_num = ibv_wc_read_qp_num(cq);
    d.src_qp = ibv_wc_read_src_qp(cq);
    d.wc_flags = ibv_wc_read_wc_flags(cq);
    d.slid = ibv_wc_read_slid(cq);
    d.sl = ibv_wc_read_sl(cq);
    d.dlid_path_bits = ibv_wc_read_dlid_path_bits(cq);
    d.completion_ts = ibv_wc_read_completion_ts(cq);
    d.wallclock_ns = ibv_wc_read_completion_wallclock_ns(cq);
    ibv_wc_read_tm_info(cq, &d.tm);
    return d;
  }
  // Waits for the next completion of `cq`, and fails if its status is another.
  Done next(ibv_cq_ex* cq, ibv_wc_status status = IBV_WC_SUCCESS) {
    ibv_poll_cq_attr attr{};
    const std::time_t end = std::time(nullptr) + kPatienceMs / 1000;
    int error;
    while ((error = ibv_start_poll(cq, &attr)) == ENOENT && std::time(nullptr) < end) {
    }
    EXPECT_EQ(error, 0) << "nothing completes";
    if (error != 0) return {};
    const Done done = fields_of(cq);
    ibv_end_poll(cq);
    EXPECT_EQ(done.status, status) << ibv_wc_status_str(done.status);
    return done;
  }
  void expect_nothing(ibv_cq_ex* cq) {
    ibv_poll_cq_attr attr{};
    EXPECT_EQ(ibv_start_poll(cq, &attr), ENOENT);
  }

  ibv_cq_ex* sends_ = nullptr;
  ibv_cq_ex* receives_ = nullptr;
  ibv_mr* region_ = nullptr;
  ibv_xrcd* domain_ = nullptr;
  std::vector<ibv_ah*> ahs_;
  std::vector<ibv_mw*> windows_;
};

}  // namespace verbs_test
