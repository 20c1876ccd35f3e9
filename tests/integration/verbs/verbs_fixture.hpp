// SPDX-License-Identifier: BSD-2-Clause
// One opened device with what most tests need: a completion queue, memory, and queue pairs that
// talk to each other. VERBENA_COMMAND names the command `verbena`.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace verbs_test {

inline constexpr int kPatienceMs = 20'000;
inline constexpr std::uint32_t kPsn = 100;
inline constexpr std::uint32_t kQkey = 0x1234;
inline constexpr std::uint32_t kGrh = 40;

struct Shape {
  ibv_qp_type type = IBV_QPT_RC;
  ibv_srq* srq = nullptr;
  std::uint8_t answers = 1;   // READs and atomics that it answers at a time
  ibv_cq* send_cq = nullptr;  // null: cq_
  ibv_cq* receive_cq = nullptr;
  ibv_qp_cap caps = {64, 64, 1, 1, 64};
};

class Verbs : public testing::Test {
 protected:
  void SetUp() override {
    ibv_device** list = ibv_get_device_list(nullptr);
    ASSERT_TRUE(list != nullptr && list[0] != nullptr);
    context_ = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    ASSERT_NE(context_, nullptr);
    ASSERT_EQ(ibv_query_port(context_, 1, &port_), 0);
    ASSERT_EQ(ibv_query_gid(context_, 1, 0, &gid_), 0);
    pd_ = ibv_alloc_pd(context_);
    cq_ = ibv_create_cq(context_, 100, nullptr, nullptr, 0);
    mr_ = ibv_reg_mr(pd_, bytes_, sizeof bytes_,
                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    ASSERT_TRUE(pd_ != nullptr && cq_ != nullptr && mr_ != nullptr);
  }
  void TearDown() override {
    for (ibv_qp* qp : qps_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    if (srq_ != nullptr) {
      EXPECT_EQ(ibv_destroy_srq(srq_), 0);
    }
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    if (channel_ != nullptr) {
      EXPECT_EQ(ibv_destroy_comp_channel(channel_), 0);
    }
    EXPECT_EQ(ibv_dereg_mr(mr_), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
    EXPECT_EQ(ibv_close_device(context_), 0);
  }

  // Replaces the completion queue by one with a channel.
  void make_channel() {
    ibv_destroy_cq(cq_);
    channel_ = ibv_create_comp_channel(context_);
    ASSERT_NE(channel_, nullptr);
    cq_ = ibv_create_cq(context_, 100, nullptr, channel_, 0);
    ASSERT_NE(cq_, nullptr);
  }

  bool is_infiniband() const { return port_.link_layer == IBV_LINK_LAYER_INFINIBAND; }

  ibv_ah_attr to_self(bool with_grh) const {
    ibv_ah_attr a{};
    a.port_num = 1;
    a.dlid = port_.lid;
    if (with_grh || !is_infiniband()) {
      a.is_global = 1;
      a.grh.dgid = gid_;
      a.grh.sgid_index = gid_index_;
      a.grh.hop_limit = 64;
    }
    return a;
  }

  // Makes a queue pair in INIT.
  ibv_qp* make(const Shape& shape = {}) {
    ibv_qp_init_attr init{};
    init.qp_type = shape.type;
    init.send_cq = shape.send_cq != nullptr ? shape.send_cq : cq_;
    init.recv_cq = shape.receive_cq != nullptr ? shape.receive_cq : cq_;
    init.srq = shape.srq;
    init.cap = shape.caps;
    init.sq_sig_all = 1;
    ibv_qp* qp = ibv_create_qp(pd_, &init);
    if (qp == nullptr) return nullptr;
    qps_.push_back(qp);
    to_init(qp, shape.type, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    return qp;
  }
  void to_init(ibv_qp* qp, ibv_qp_type type, unsigned access) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    a.qkey = kQkey;
    a.qp_access_flags = access;
    const int last = type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    EXPECT_EQ(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | last), 0);
  }
  void to_rtr(ibv_qp* qp, const ibv_qp* peer, const Shape& shape = {}) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_1024;
    a.dest_qp_num = peer->qp_num;
    a.rq_psn = kPsn;
    a.min_rnr_timer = 1;
    a.max_dest_rd_atomic = shape.answers;
    a.ah_attr = to_self(false);
    const int connected = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    const int more = qp->qp_type == IBV_QPT_UD ? 0 : connected;
    ASSERT_EQ(ibv_modify_qp(qp, &a, IBV_QP_STATE | more), 0);
  }
  void to_rts(ibv_qp* qp, std::uint8_t rnr_retry = 7) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RTS;
    a.timeout = 14;
    a.retry_cnt = 7;
    a.rnr_retry = rnr_retry;
    a.sq_psn = kPsn;
    a.max_rd_atomic = 1;
    const int connected =
        IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    const int more = qp->qp_type == IBV_QPT_UD ? 0 : connected;
    ASSERT_EQ(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | more), 0);
  }
  int to_state(ibv_qp* qp, ibv_qp_state state, int more = 0) {
    ibv_qp_attr a{};
    a.qp_state = state;
    a.en_sqd_async_notify = 1;
    return ibv_modify_qp(qp, &a, IBV_QP_STATE | more);
  }
  // Connects left_, which sends, with right_.
  void connect(const Shape& right = {}) {
    left_ = make();
    right_ = make(right);
    to_rtr(left_, right_);
    to_rtr(right_, left_, right);
    to_rts(left_);
    to_rts(right_);
  }
  ibv_srq* make_srq(std::uint32_t limit) {
    ibv_srq_init_attr init{};
    init.attr = {16, 1, 0};
    srq_ = ibv_create_srq(pd_, &init);
    for (int i = 0; i < 4; ++i) {
      ibv_sge sge = at(2048, 1024);
      ibv_recv_wr wr{};
      ibv_recv_wr* bad = nullptr;
      wr.sg_list = &sge;
      wr.num_sge = 1;
      EXPECT_EQ(ibv_post_srq_recv(srq_, &wr, &bad), 0);
    }
    ibv_srq_attr a{16, 1, limit};
    if (limit != 0) {
      EXPECT_EQ(ibv_modify_srq(srq_, &a, IBV_SRQ_LIMIT), 0);
    }
    return srq_;
  }

  ibv_sge at(std::size_t offset, std::uint32_t length) {
    return {reinterpret_cast<std::uintptr_t>(bytes_) + offset, length, mr_->lkey};
  }
  void receive(ibv_qp* qp, std::uint64_t id = 1) {
    ibv_sge sge = at(2048, 1024);
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    wr.wr_id = id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ASSERT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
  }
  ibv_send_wr request(ibv_wr_opcode opcode = IBV_WR_SEND) {
    ibv_send_wr wr{};
    wr.wr_id = 2;
    wr.opcode = opcode;
    wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(bytes_) + 2048;
    wr.wr.rdma.rkey = mr_->rkey;
    return wr;
  }
  void post(ibv_qp* qp, ibv_send_wr wr, std::uint32_t length = 100) {
    ibv_sge sge = at(0, length);
    ibv_send_wr* bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  }
  ibv_wc poll() {
    ibv_wc wc{};
    while (ibv_poll_cq(cq_, 1, &wc) == 0) {
    }
    return wc;
  }

  // Expects that the next event has this type, and this element unless it is null.
  void expect_event(ibv_event_type type, const void* element) {
    pollfd p{context_->async_fd, POLLIN, 0};
    ASSERT_EQ(::poll(&p, 1, kPatienceMs), 1) << "no event of type " << type;
    ibv_async_event event{};
    ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
    EXPECT_EQ(event.event_type, type) << ibv_event_type_str(event.event_type);
    if (element != nullptr) {
      EXPECT_EQ(event.element.qp, element);
    } else {
      EXPECT_EQ(event.element.port_num, 1);
    }
    ibv_ack_async_event(&event);
  }
  void expect_no_event() {
    pollfd p{context_->async_fd, POLLIN, 0};
    EXPECT_EQ(::poll(&p, 1, 0), 0);
  }
  void command(const std::string& words) {
    const char* verbena = std::getenv("VERBENA_COMMAND");
    ASSERT_NE(verbena, nullptr);
    const std::string line = std::string(verbena) + " " + words;
    ASSERT_EQ(std::system(line.c_str()), 0) << line;
  }
  ibv_port_attr port() {
    ibv_port_attr a{};
    EXPECT_EQ(ibv_query_port(context_, 1, &a), 0);
    return a;
  }

  ibv_context* context_ = nullptr;
  ibv_port_attr port_{};
  ibv_gid gid_{};
  std::uint8_t gid_index_ = 0;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;  // of the tests that use one
  ibv_srq* srq_ = nullptr;
  char bytes_[4096] = {};
  ibv_mr* mr_ = nullptr;
  std::vector<ibv_qp*> qps_;
  ibv_qp* left_ = nullptr;
  ibv_qp* right_ = nullptr;
};

// A device that is opened once more, in a context of its own, and so with an engine of its own.
class Device final : public Verbs {
 public:
  Device() { SetUp(); }
  ~Device() override { TearDown(); }
  void TestBody() override {}
  void destroy(ibv_qp* qp) {
    std::erase(qps_, qp);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
  }

  using Verbs::cq_;
  using Verbs::make;
  using Verbs::pd_;
  using Verbs::poll;
  using Verbs::post;
  using Verbs::receive;
  using Verbs::request;
  using Verbs::to_rtr;
  using Verbs::to_rts;
  using Verbs::to_self;
  using Verbs::to_state;
};

}  // namespace verbs_test
