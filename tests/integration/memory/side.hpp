// SPDX-License-Identifier: BSD-2-Clause
// One of two devices that a process has opened, with memory, a completion queue, and queue pairs
// that are connected with those of the other.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include <chrono>
#include <cstdint>
#include <vector>

namespace memory_test {

class Side {
 public:
  static constexpr std::size_t kOwn = 1u << 20;
  static constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

  Side() : own_(kOwn) {
    ibv_device** list = ibv_get_device_list(nullptr);
    context_ = list != nullptr && list[0] != nullptr ? ibv_open_device(list[0]) : nullptr;
    ibv_free_device_list(list);
    if (context_ == nullptr) {
      ADD_FAILURE() << "no device";
      return;
    }
    EXPECT_EQ(ibv_query_port(context_, 1, &port_), 0);
    EXPECT_EQ(ibv_query_gid(context_, 1, 0, &gid_), 0);
    pd_ = ibv_alloc_pd(context_);
    cq_ = ibv_create_cq(context_, 100, nullptr, nullptr, 0);
    mr_ = add(own_.data(), own_.size());
  }
  ~Side() {
    if (context_ == nullptr) return;
    for (ibv_ah* ah : ahs_) EXPECT_EQ(ibv_destroy_ah(ah), 0);
    for (ibv_qp* qp : qps_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    for (ibv_srq* srq : srqs_) EXPECT_EQ(ibv_destroy_srq(srq), 0);
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    for (ibv_mr* mr : mrs_) EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
    EXPECT_EQ(ibv_close_device(context_), 0);
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  // Registers memory until the end of this side.
  ibv_mr* add(char* bytes, std::size_t length) {
    ibv_mr* mr = ibv_reg_mr(pd_, bytes, length, kAccess);
    EXPECT_NE(mr, nullptr);
    if (mr != nullptr) mrs_.push_back(mr);
    return mr;
  }
  ibv_pd* pd() const { return pd_; }
  std::uint32_t key() const { return mr_->rkey; }
  char* own() { return own_.data(); }

  ibv_sge sge(std::size_t offset, std::uint32_t length) {
    return sge(own_.data() + offset, length, mr_);
  }
  static ibv_sge sge(char* bytes, std::uint32_t length, const ibv_mr* mr) {
    return {reinterpret_cast<std::uintptr_t>(bytes), length, mr != nullptr ? mr->lkey : 0};
  }

  // The address of the last queue pair.
  struct Name {
    ibv_gid gid;
    std::uint16_t lid;
    std::uint32_t number;
  };
  Name name() const { return {gid_, port_.lid, qp_->qp_num}; }

  // Connects a new queue pair on each side; later calls use these. `writes_atomically` asks for the
  // builder of atomic writes.
  void connect(Side& peer, ibv_qp_type type = IBV_QPT_RC, bool is_shared = false,
               bool writes_atomically = false) {
    make(type, false, writes_atomically);
    peer.make(type, is_shared, false);
    to_rts(peer.name());
    peer.to_rts(name());
  }
  // Makes a queue pair in INIT.
  void make(ibv_qp_type type, bool is_shared = false, bool writes_atomically = false) {
    srq_ = nullptr;
    if (is_shared) {
      ibv_srq_init_attr shared{};
      shared.attr = {16, 4, 0};
      srq_ = ibv_create_srq(pd_, &shared);
      ASSERT_NE(srq_, nullptr);
      srqs_.push_back(srq_);
    }
    ibv_qp_init_attr_ex init{};
    init.qp_type = type;
    init.send_cq = init.recv_cq = cq_;
    init.srq = srq_;
    init.cap = {16, 16, 4, 4, 64};
    init.pd = pd_;
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    if (writes_atomically) {
      init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
      init.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_WRITE;
    }
    qp_ = ibv_create_qp_ex(context_, &init);
    ASSERT_NE(qp_, nullptr);
    qps_.push_back(qp_);
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    a.qkey = kQkey;
    a.qp_access_flags = kAccess;
    const int last = type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    ASSERT_EQ(ibv_modify_qp(qp_, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | last), 0);
  }
  void to_rts(const Name& peer) {
    peer_ = peer;
    const bool is_ud = qp_->qp_type == IBV_QPT_UD;
    const bool is_reliable = qp_->qp_type == IBV_QPT_RC;
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_4096;
    a.dest_qp_num = peer.number;
    a.rq_psn = kPsn;
    a.min_rnr_timer = 1;
    a.max_dest_rd_atomic = 1;
    a.ah_attr = address_of(peer);
    const int connected = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    const int answering = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    ASSERT_EQ(ibv_modify_qp(qp_, &a,
                            IBV_QP_STATE | (is_ud ? 0 : connected) | (is_reliable ? answering : 0)),
              0);
    a.qp_state = IBV_QPS_RTS;
    a.timeout = 14;
    a.retry_cnt = 7;
    a.rnr_retry = 7;
    a.sq_psn = kPsn;
    a.max_rd_atomic = 1;
    const int reliable =
        IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    ASSERT_EQ(ibv_modify_qp(qp_, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | (is_reliable ? reliable : 0)),
              0);
    if (!is_ud) return;
    ahs_.push_back(ibv_create_ah(pd_, &a.ah_attr));
    ASSERT_NE(ahs_.back(), nullptr);
  }

  void receive(std::uint64_t id, ibv_sge sge) {
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    wr.wr_id = id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ASSERT_EQ(srq_ != nullptr ? ibv_post_srq_recv(srq_, &wr, &bad) : ibv_post_recv(qp_, &wr, &bad),
              0);
  }
  // Returns a request to memory of this side.
  ibv_send_wr request(ibv_wr_opcode opcode) {
    ibv_send_wr wr{};
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(own_.data());
    wr.wr.rdma.rkey = mr_->rkey;
    return wr;
  }
  int try_to_post(ibv_send_wr wr, std::vector<ibv_sge> list) {
    ibv_send_wr* bad = nullptr;
    wr.sg_list = list.data();
    wr.num_sge = static_cast<int>(list.size());
    if (qp_->qp_type == IBV_QPT_UD) {
      wr.wr.ud.ah = ahs_.back();
      wr.wr.ud.remote_qpn = peer_.number;
      wr.wr.ud.remote_qkey = kQkey;
    }
    return ibv_post_send(qp_, &wr, &bad);
  }
  int try_to_post(const ibv_send_wr& wr, ibv_sge sge) { return try_to_post(wr, std::vector{sge}); }
  void post(const ibv_send_wr& wr, std::vector<ibv_sge> list) {
    ASSERT_EQ(try_to_post(wr, std::move(list)), 0);
  }
  void post(const ibv_send_wr& wr, ibv_sge sge) { post(wr, std::vector{sge}); }
  void write_atomically(std::uint64_t address, std::uint32_t key) {
    ibv_qp_ex* const ex = ibv_qp_to_qp_ex(qp_);
    const std::uint64_t value = 5;
    ibv_wr_start(ex);
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_atomic_write(ex, key, address, &value);
    ASSERT_EQ(ibv_wr_complete(ex), 0);
  }

  // Waits for the next completion.
  ibv_wc completion() {
    ibv_wc wc{};
    wc.status = IBV_WC_GENERAL_ERR;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (ibv_poll_cq(cq_, 1, &wc) == 0) {
      if (std::chrono::steady_clock::now() < end) continue;
      ADD_FAILURE() << "nothing completes";
      break;
    }
    return wc;
  }
  void expect_event(ibv_event_type type) {
    pollfd p{context_->async_fd, POLLIN, 0};
    ASSERT_EQ(::poll(&p, 1, 20'000), 1) << "no event of type " << type;
    ibv_async_event event{};
    ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
    EXPECT_EQ(event.event_type, type) << ibv_event_type_str(event.event_type);
    ibv_ack_async_event(&event);
  }

 private:
  static constexpr std::uint32_t kQkey = 0x1234;
  static constexpr std::uint32_t kPsn = 100;

  ibv_ah_attr address_of(const Name& peer) const {
    ibv_ah_attr a{};
    a.port_num = 1;
    a.dlid = peer.lid;
    if (port_.link_layer != IBV_LINK_LAYER_INFINIBAND) {
      a.is_global = 1;
      a.grh.dgid = peer.gid;
      a.grh.hop_limit = 64;
    }
    return a;
  }

  ibv_context* context_ = nullptr;
  ibv_port_attr port_{};
  ibv_gid gid_{};
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  std::vector<char> own_;
  ibv_mr* mr_ = nullptr;
  ibv_srq* srq_ = nullptr;  // SRQ of the last queue pair
  ibv_qp* qp_ = nullptr;    // the last queue pair
  Name peer_{};
  std::vector<ibv_mr*> mrs_;
  std::vector<ibv_qp*> qps_;
  std::vector<ibv_srq*> srqs_;
  std::vector<ibv_ah*> ahs_;
};

}  // namespace memory_test
