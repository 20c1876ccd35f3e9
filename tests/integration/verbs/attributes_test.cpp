// SPDX-License-Identifier: BSD-2-Clause
// Queries return what was set: attributes of queue pairs in all states, granted sizes, and numbers
// that stay the same.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "verbs_fixture.hpp"

namespace verbs_test {
namespace {

class Attributes : public Verbs {
 protected:
  ibv_qp_attr query(ibv_qp* qp) {
    ibv_qp_attr a{};
    EXPECT_EQ(ibv_query_qp(qp, &a, IBV_QP_STATE, &init_), 0);
    EXPECT_EQ(qp->state, a.qp_state);
    EXPECT_EQ(a.cur_qp_state, a.qp_state);
    return a;
  }
  void expect_path(const ibv_ah_attr& got, const ibv_ah_attr& set) {
    EXPECT_EQ(got.dlid, set.dlid);
    EXPECT_EQ(got.sl, set.sl);
    EXPECT_EQ(got.src_path_bits, set.src_path_bits);
    EXPECT_EQ(got.static_rate, set.static_rate);
    EXPECT_EQ(got.port_num, set.port_num);
    EXPECT_EQ(got.is_global, set.is_global);
    if (set.is_global == 0) return;
    EXPECT_EQ(std::memcmp(&got.grh.dgid, &set.grh.dgid, sizeof set.grh.dgid), 0);
    EXPECT_EQ(got.grh.flow_label, set.grh.flow_label);
    EXPECT_EQ(got.grh.sgid_index, set.grh.sgid_index);
    EXPECT_EQ(got.grh.hop_limit, set.grh.hop_limit);
    EXPECT_EQ(got.grh.traffic_class, set.grh.traffic_class);
  }
  ibv_ah_attr some_path() {
    ibv_ah_attr a = to_self(true);
    a.sl = 3;
    a.static_rate = 2;
    a.grh.flow_label = 0x12345;
    a.grh.hop_limit = 17;
    a.grh.traffic_class = 0x20;
    return a;
  }
  // Returns the attributes of INIT to RTR, with all that this transition takes.
  ibv_qp_attr to_rtr_in_full(ibv_qp* qp) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RTR;
    a.ah_attr = some_path();
    a.path_mtu = IBV_MTU_2048;
    a.dest_qp_num = 0x1234;
    a.rq_psn = 0xabcdef;
    a.max_dest_rd_atomic = 7;
    a.min_rnr_timer = 19;
    a.alt_ah_attr = to_self(false);
    a.alt_port_num = 1;
    a.alt_timeout = 11;
    a.qp_access_flags = IBV_ACCESS_REMOTE_READ;
    EXPECT_EQ(ibv_modify_qp(qp, &a,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER |
                                IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS),
              0);
    return a;
  }
  ibv_qp_attr to_rts_in_full(ibv_qp* qp) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RTS;
    a.sq_psn = 0x654321;
    a.timeout = 13;
    a.retry_cnt = 5;
    a.rnr_retry = 6;
    a.max_rd_atomic = 9;
    a.path_mig_state = IBV_MIG_REARM;
    EXPECT_EQ(ibv_modify_qp(qp, &a,
                            IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_PATH_MIG_STATE),
              0);
    return a;
  }

  ibv_qp_init_attr init_{};
};

TEST_F(Attributes, OfACreatedQueuePairAreThoseOfItsCreation) {
  ibv_qp_init_attr init{};
  init.qp_context = this;
  init.qp_type = IBV_QPT_RC;
  init.send_cq = init.recv_cq = cq_;
  init.cap = {10, 20, 3, 4, 100};
  init.sq_sig_all = 1;
  ibv_qp* qp = ibv_create_qp(pd_, &init);
  ASSERT_NE(qp, nullptr);
  qps_.push_back(qp);
  EXPECT_GE(init.cap.max_send_wr, 10u);  // the query returns the granted size
  EXPECT_GE(init.cap.max_inline_data, 100u);
  const ibv_qp_attr a = query(qp);
  EXPECT_EQ(a.qp_state, IBV_QPS_RESET);
  EXPECT_EQ(std::memcmp(&a.cap, &init.cap, sizeof a.cap), 0);
  EXPECT_EQ(std::memcmp(&init_.cap, &init.cap, sizeof a.cap), 0);
  EXPECT_EQ(init_.qp_context, this);
  EXPECT_EQ(init_.send_cq, cq_);
  EXPECT_EQ(init_.recv_cq, cq_);
  EXPECT_EQ(init_.srq, nullptr);
  EXPECT_EQ(init_.qp_type, IBV_QPT_RC);
  EXPECT_EQ(init_.sq_sig_all, 1);
}

TEST_F(Attributes, OfAConnectionAreThoseThatWereSetOnTheWay) {
  ibv_qp* qp = make();
  ibv_qp_attr got = query(qp);
  EXPECT_EQ(got.qp_state, IBV_QPS_INIT);
  EXPECT_EQ(got.port_num, 1);
  EXPECT_EQ(got.pkey_index, 0);
  EXPECT_EQ(got.qp_access_flags, unsigned{IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ});
  const ibv_qp_attr rtr = to_rtr_in_full(qp);
  got = query(qp);
  EXPECT_EQ(got.qp_state, IBV_QPS_RTR);
  EXPECT_EQ(got.path_mtu, IBV_MTU_2048);
  EXPECT_EQ(got.dest_qp_num, 0x1234u);
  EXPECT_EQ(got.rq_psn, 0xabcdefu);
  EXPECT_EQ(got.max_dest_rd_atomic, 7);
  EXPECT_EQ(got.min_rnr_timer, 19);
  EXPECT_EQ(got.alt_port_num, 1);
  EXPECT_EQ(got.alt_timeout, 11);
  EXPECT_EQ(got.qp_access_flags, unsigned{IBV_ACCESS_REMOTE_READ});
  expect_path(got.ah_attr, rtr.ah_attr);
  expect_path(got.alt_ah_attr, rtr.alt_ah_attr);
  to_rts_in_full(qp);
  got = query(qp);
  EXPECT_EQ(got.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(got.sq_psn, 0x654321u);
  EXPECT_EQ(got.timeout, 13);
  EXPECT_EQ(got.retry_cnt, 5);
  EXPECT_EQ(got.rnr_retry, 6);
  EXPECT_EQ(got.max_rd_atomic, 9);
  EXPECT_NE(got.path_mig_state, IBV_MIG_MIGRATED);
  EXPECT_EQ(got.dest_qp_num, 0x1234u);  // earlier attributes stay
}

TEST_F(Attributes, AreForgottenByReset) {
  ibv_qp* qp = make();
  to_rtr_in_full(qp);
  to_rts_in_full(qp);
  ASSERT_EQ(to_state(qp, IBV_QPS_RESET), 0);
  const ibv_qp_attr got = query(qp);
  EXPECT_EQ(got.qp_state, IBV_QPS_RESET);
  EXPECT_EQ(got.dest_qp_num, 0u);
  EXPECT_EQ(got.timeout, 0);
  EXPECT_EQ(got.qp_access_flags, 0u);
  EXPECT_EQ(got.alt_timeout, 0);
}

TEST_F(Attributes, StayWhenAChangeIsRefused) {
  ibv_qp* qp = make();
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = IBV_MTU_1024;
  a.dest_qp_num = 5;
  a.min_rnr_timer = 40;  // wrong
  a.ah_attr = to_self(false);
  ASSERT_NE(ibv_modify_qp(qp, &a,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                              IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
            0);
  const ibv_qp_attr got = query(qp);
  EXPECT_EQ(got.qp_state, IBV_QPS_INIT);
  EXPECT_EQ(got.dest_qp_num, 0u);
}

TEST_F(Attributes, OfADatagramQueuePairHaveItsQkey) {
  ibv_qp* qp = make({IBV_QPT_UD, nullptr, 0});
  EXPECT_EQ(query(qp).qkey, kQkey);
  to_rtr(qp, qp);
  to_rts(qp);
  ibv_qp_attr a{};
  a.qkey = 0x4321;
  ASSERT_EQ(ibv_modify_qp(qp, &a, IBV_QP_QKEY), 0);
  EXPECT_EQ(query(qp).qkey, 0x4321u);
}

TEST_F(Attributes, OfASharedQueueAreThoseThatWereSet) {
  ibv_srq* srq = make_srq(7);
  ibv_srq_attr a{};
  ASSERT_EQ(ibv_query_srq(srq, &a), 0);
  EXPECT_EQ(a.max_wr, 16u);
  EXPECT_EQ(a.max_sge, 1u);
  EXPECT_EQ(a.srq_limit, 7u);
  a.max_wr = 40;
  ASSERT_EQ(ibv_modify_srq(srq, &a, IBV_SRQ_MAX_WR), 0);
  ASSERT_EQ(ibv_query_srq(srq, &a), 0);
  EXPECT_EQ(a.max_wr, 40u);
  EXPECT_EQ(a.srq_limit, 7u);
}

TEST_F(Attributes, OfACompletionQueueAreWhatItHolds) {
  EXPECT_GE(cq_->cqe, 100);
  ASSERT_EQ(ibv_resize_cq(cq_, 500), 0);
  EXPECT_GE(cq_->cqe, 500);
}

// A reliable peer's WRITE and SEND arrive in order. Data of a READ need not.
TEST_F(Attributes, SayWhetherDataComesInOrder) {
  connect();
  EXPECT_EQ(ibv_query_qp_data_in_order(left_, IBV_WR_RDMA_WRITE, 0), 1);
  EXPECT_EQ(ibv_query_qp_data_in_order(left_, IBV_WR_RDMA_READ, 0), 0);
}

// Some versions of libibverbs' headers do not define these capabilities yet.
TEST_F(Attributes, OnDemandPagingServesEveryOperationOfReliableTransports) {
  constexpr std::uint32_t kFlush = 1u << 6;
  constexpr std::uint32_t kAtomicWrite = 1u << 7;
  ibv_device_attr_ex device{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &device), 0);
  for (const std::uint32_t caps :
       {device.odp_caps.per_transport_caps.rc_odp_caps, device.xrc_odp_caps}) {
    EXPECT_EQ(caps & (kFlush | kAtomicWrite), kFlush | kAtomicWrite);
  }
  for (const std::uint32_t caps : {device.odp_caps.per_transport_caps.uc_odp_caps,
                                   device.odp_caps.per_transport_caps.ud_odp_caps}) {
    EXPECT_EQ(caps & (kFlush | kAtomicWrite), 0u);
  }
}

// Each operation of ibv_create_qp_ex has its bit, for programs that look before they use it.
TEST_F(Attributes, CapabilitiesNameFlushAndAtomicWrite) {
  constexpr std::uint64_t kThree = 7ull << 38;
  ibv_device_attr_ex device{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &device), 0);
  EXPECT_EQ(device.device_cap_flags_ex & kThree, kThree);
}

// As on an adapter, no receive fits into a queue that was made for none.
TEST_F(Attributes, AQueueForNoReceivesTakesNone) {
  for (const std::uint32_t sges : {0u, 1u}) {
    for (const std::uint32_t receives : {0u, 2u}) {
      ibv_qp* const qp = make({.caps = {1, receives, 1, sges, 0}});
      ASSERT_NE(qp, nullptr);
      ibv_qp_attr a{};
      ASSERT_EQ(ibv_query_qp(qp, &a, IBV_QP_CAP, &init_), 0);
      EXPECT_EQ(init_.cap.max_recv_wr, receives);
      EXPECT_EQ(init_.cap.max_recv_sge, receives == 0 ? sges : 1u);
      ibv_sge part = at(0, 8);
      ibv_recv_wr wr{};
      ibv_recv_wr* bad = nullptr;
      wr.sg_list = &part;
      wr.num_sge = 1;
      for (std::uint32_t i = 0; i < receives; ++i) EXPECT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
      EXPECT_EQ(ibv_post_recv(qp, &wr, &bad), ENOMEM);
    }
  }
}

// Offsets in the page are equal, as uverbs wants; the pages may differ.
TEST_F(Attributes, ARegionMayHaveAnotherAddress) {
  const auto address = reinterpret_cast<std::uintptr_t>(bytes_);
  ibv_mr* const mr = ibv_reg_mr_iova(pd_, bytes_, 64, address % 4096 + 0x10000, 0);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

// ibv_reg_mr_iova calls this function for the accesses that a device may ignore.
TEST_F(Attributes, ARegionWithOptionalAccessMayHaveAnotherAddress) {
  const auto address = reinterpret_cast<std::uintptr_t>(bytes_) + 1024;
  const std::uint64_t other = address % 4096 + 0x10000;
  ibv_mr* const mr = ibv_reg_mr_iova2(
      pd_, bytes_ + 1024, 512, other,
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->addr, bytes_ + 1024);
  EXPECT_EQ(mr->length, 512u);
  connect();
  std::memset(bytes_, 'w', 100);
  ibv_send_wr write = request(IBV_WR_RDMA_WRITE);
  write.wr.rdma = {other + 200, mr->rkey};
  post(left_, write);
  EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(std::string(bytes_ + 1024 + 199, 102), '\0' + std::string(100, 'w') + '\0');
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Attributes, ADeviceHasTheSameNumbersBeforeItIsOpenAndAfter) {
  ibv_device_attr attr{};
  ASSERT_EQ(ibv_query_device(context_, &attr), 0);
  EXPECT_NE(attr.node_guid, 0u);
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  ASSERT_NE(list, nullptr);
  int with_this_guid = 0;
  for (int i = 0; i < count; ++i) {
    const bool is_this = ibv_get_device_guid(list[i]) == attr.node_guid;
    with_this_guid += is_this ? 1 : 0;
    EXPECT_EQ(ibv_get_device_index(list[i]) == ibv_get_device_index(context_->device), is_this);
  }
  EXPECT_EQ(with_this_guid, 1);
  EXPECT_GE(ibv_get_device_index(context_->device), 0);
  ibv_free_device_list(list);
}

// A domain without a file needs no O_CREAT, and is each time another one.
TEST_F(Attributes, XrcDomainsWithoutAFile) {
  std::vector<ibv_xrcd*> made;
  for (const int flags : {0, O_CREAT, O_CREAT | O_EXCL}) {
    ibv_xrcd_init_attr a{};
    a.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    a.fd = -1;
    a.oflags = flags;
    made.push_back(ibv_open_xrcd(context_, &a));
    ASSERT_NE(made.back(), nullptr) << flags;
  }
  EXPECT_NE(made[0], made[1]);
  for (ibv_xrcd* xrcd : made) EXPECT_EQ(ibv_close_xrcd(xrcd), 0);
}

// A parent domain is the domain that it was made of.
TEST_F(Attributes, AWindowIsBoundOnAQueuePairOfAParentDomain) {
  ibv_parent_domain_init_attr a{};
  a.pd = pd_;
  ibv_pd* const parent = ibv_alloc_parent_domain(context_, &a);
  ASSERT_NE(parent, nullptr);
  ibv_mr* const mr =
      ibv_reg_mr(pd_, bytes_, sizeof bytes_,
                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND);
  ibv_mw* const mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_1);
  std::swap(pd_, const_cast<ibv_pd*&>(parent));
  connect();
  std::swap(pd_, const_cast<ibv_pd*&>(parent));
  ibv_mw_bind bind{};
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = {mr, reinterpret_cast<std::uintptr_t>(bytes_), 64, IBV_ACCESS_REMOTE_READ};
  EXPECT_EQ(ibv_bind_mw(left_, mw, &bind), 0);
  EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  for (ibv_qp* qp : std::exchange(qps_, {})) EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
}

// Device memory lives as long as a region of it, whichever handle that was made with.
TEST_F(Attributes, DeviceMemoryOutlivesItsHandles) {
  ibv_alloc_dm_attr a{};
  a.length = 4096;
  ibv_dm* const dm = ibv_alloc_dm(context_, &a);
  ASSERT_NE(dm, nullptr);
  ibv_context* const other = ibv_import_device(dup(context_->cmd_fd));
  ASSERT_NE(other, nullptr);
  ibv_dm* const imported = ibv_import_dm(other, dm->handle);
  ASSERT_NE(imported, nullptr);
  ibv_pd* const pd = ibv_import_pd(other, pd_->handle);
  ASSERT_NE(pd, nullptr);
  ibv_mr* const mr = ibv_reg_dm_mr(pd, imported, 0, 4096,
                                   IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE |
                                       IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_free_dm(dm), EBUSY);
  ibv_unimport_dm(imported);
  std::vector<std::vector<char>> others(16, std::vector<char>(4096, 'o'));
  connect();
  std::memset(bytes_, 'w', 100);
  ibv_send_wr write = request(IBV_WR_RDMA_WRITE);
  write.wr.rdma = {64, mr->rkey};
  post(left_, write);
  EXPECT_EQ(poll().status, IBV_WC_SUCCESS);
  for (const auto& bytes : others) EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 'o'), 4096);
  char got[100] = {};
  EXPECT_EQ(ibv_memcpy_from_dm(got, dm, 64, sizeof got), 0);
  EXPECT_EQ(std::memcmp(got, bytes_, sizeof got), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_free_dm(dm), 0);
  ibv_unimport_pd(pd);
  EXPECT_EQ(ibv_close_device(other), 0);
}

}  // namespace
}  // namespace verbs_test
