// SPDX-License-Identifier: BSD-2-Clause
// Makes and destroys the objects that the rows use.
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "refusals.hpp"

namespace refusals {
namespace {

constexpr std::uint32_t kPsn = 77;

ibv_qp_attr to(ibv_qp_state state) {
  ibv_qp_attr a;
  std::memset(&a, 0, sizeof a);
  a.qp_state = state;
  return a;
}

std::string text_of(ibv_qp* qp) {
  ibv_qp_attr a;
  ibv_qp_init_attr init;
  NEED(ibv_query_qp(qp, &a, IBV_QP_STATE, &init) == 0);
  char text[160];
  std::snprintf(text, sizeof text,
                "qp 0x%x state %d psn %u %u mtu %d to 0x%x qkey %u access %x mig %d; ", qp->qp_num,
                a.qp_state, a.sq_psn, a.rq_psn, a.path_mtu, a.dest_qp_num, a.qkey,
                a.qp_access_flags, a.path_mig_state);
  return text;
}

std::string text_of(ibv_srq* srq) {
  ibv_srq_attr a;
  NEED(ibv_query_srq(srq, &a) == 0);
  char text[80];
  std::snprintf(text, sizeof text, "srq %u x %u limit %u; ", a.max_wr, a.max_sge, a.srq_limit);
  return text;
}

}  // namespace

World::World(ibv_device* device) : context(ibv_open_device(device)), bytes(kBytes) {
  NEED(context != nullptr);
  NEED(ibv_query_port(context, 1, &port) == 0);
  NEED(ibv_query_gid(context, 1, 0, &gid) == 0);
  NEED((pd = ibv_alloc_pd(context)) != nullptr);
  NEED((other_pd = ibv_alloc_pd(context)) != nullptr);
  ibv_td_init_attr td_attr{};
  NEED((td = ibv_alloc_td(context, &td_attr)) != nullptr);
  make_memory();
  make_queues();
  make_queue_pairs();
}

void World::make_memory() {
  constexpr int kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                       IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
  NEED((mr = ibv_reg_mr(pd, bytes.data(), bytes.size(), kAll)) != nullptr);
  NEED((other_mr = ibv_reg_mr(other_pd, bytes.data(), 64, kAll)) != nullptr);
  NEED((null_mr = ibv_alloc_null_mr(pd)) != nullptr);
  NEED((mw1 = ibv_alloc_mw(pd, IBV_MW_TYPE_1)) != nullptr);
  NEED((mw2 = ibv_alloc_mw(pd, IBV_MW_TYPE_2)) != nullptr);
  ibv_alloc_dm_attr dm_attr{};
  dm_attr.length = 256;
  dm_attr.log_align_req = 6;
  NEED((dm = ibv_alloc_dm(context, &dm_attr)) != nullptr);
  NEED((dm_mr = ibv_reg_dm_mr(pd, dm, 0, 256, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE)) !=
       nullptr);
}

void World::make_queues() {
  NEED((channel = ibv_create_comp_channel(context)) != nullptr);
  NEED((cq = ibv_create_cq(context, 100, nullptr, nullptr, 0)) != nullptr);
  NEED((event_cq = ibv_create_cq(context, 100, nullptr, channel, 0)) != nullptr);
  ibv_cq_init_attr_ex ex{};
  ex.cqe = 100;
  ex.wc_flags = IBV_WC_STANDARD_FLAGS;
  NEED((cq_ex = ibv_create_cq_ex(context, &ex)) != nullptr);
  ibv_srq_init_attr basic{};
  basic.attr = {kQueue, kSges, 0};
  NEED((srq = ibv_create_srq(pd, &basic)) != nullptr);
  for (std::uint32_t i = 0; i < kQueue; ++i) {
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    NEED(ibv_post_srq_recv(srq, &wr, &bad) == 0);
  }
  ibv_xrcd_init_attr domain{};
  domain.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  domain.fd = -1;
  domain.oflags = 0100;  // O_CREAT
  NEED((xrcd = ibv_open_xrcd(context, &domain)) != nullptr);
  ibv_srq_init_attr_ex x{};
  x.attr = {kQueue, 1, 0};
  x.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  x.srq_type = IBV_SRQT_XRC;
  x.pd = pd;
  x.xrcd = xrcd;
  x.cq = cq;
  NEED((xrc_srq = ibv_create_srq_ex(context, &x)) != nullptr);
  x.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;
  x.srq_type = IBV_SRQT_TM;
  x.tm_cap = {1, 1};
  NEED((tm_srq = ibv_create_srq_ex(context, &x)) != nullptr);
  ibv_ops_wr add{};
  ibv_ops_wr* bad = nullptr;
  add.opcode = IBV_WR_TAG_ADD;
  add.tm.add.tag = 5;
  add.tm.add.mask = ~0ull;
  NEED(ibv_post_srq_ops(tm_srq, &add, &bad) == 0);
  tag_handle = add.tm.handle;
}

ibv_qp* World::make(ibv_qp_type type, ibv_srq* with) const {
  ibv_qp_init_attr_ex a{};
  a.qp_type = type;
  a.send_cq = a.recv_cq = cq;
  a.srq = with;
  a.cap = {kQueue, kQueue, kSges, kSges, kInline};
  a.comp_mask = IBV_QP_INIT_ATTR_PD;
  a.pd = pd;
  if (type == IBV_QPT_XRC_RECV) {
    a.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    a.xrcd = xrcd;
  } else if (type == IBV_QPT_RC && with == nullptr) {
    a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    a.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_BIND_MW;
  }
  ibv_qp* qp = ibv_create_qp_ex(context, &a);
  NEED(qp != nullptr);
  return qp;
}

ibv_ah_attr World::to_self() const {
  ibv_ah_attr a{};
  a.port_num = 1;
  a.dlid = port.lid;
  if (port.link_layer == IBV_LINK_LAYER_ETHERNET) {
    a.is_global = 1;
    a.grh.dgid = gid;
    a.grh.hop_limit = 64;
  }
  return a;
}

void World::to_init(ibv_qp* qp) const {
  ibv_qp_attr a = to(IBV_QPS_INIT);
  a.port_num = 1;
  a.qkey = 0x11;
  const int last = qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  NEED(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | last) == 0);
}

void World::connect(ibv_qp* qp) const {
  to_init(qp);
  const bool is_rc = qp->qp_type == IBV_QPT_RC;
  const bool is_ud = qp->qp_type == IBV_QPT_UD;
  ibv_qp_attr a = to(IBV_QPS_RTR);
  a.path_mtu = IBV_MTU_1024;
  a.dest_qp_num = qp->qp_num;
  a.rq_psn = a.sq_psn = kPsn;
  a.min_rnr_timer = 12;
  a.ah_attr = to_self();
  int mask = IBV_QP_STATE;
  if (!is_ud) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (is_rc) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  NEED(ibv_modify_qp(qp, &a, mask) == 0);
  a.qp_state = IBV_QPS_RTS;
  a.timeout = 14;
  a.retry_cnt = a.rnr_retry = 7;
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (is_rc) {
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  NEED(ibv_modify_qp(qp, &a, mask) == 0);
}

void World::make_queue_pairs() {
  reset = make(IBV_QPT_RC);
  to_init(init = make(IBV_QPT_RC));
  for (std::uint32_t i = 0; i < kQueue; ++i) {
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    NEED(ibv_post_recv(init, &wr, &bad) == 0);
  }
  connect(rc = make(IBV_QPT_RC));
  ibv_qp* extended = make(IBV_QPT_RC);
  connect(extended);
  NEED((builder = ibv_qp_to_qp_ex(extended)) != nullptr);
  connect(uc = make(IBV_QPT_UC));
  connect(ud = make(IBV_QPT_UD));
  NEED(ibv_attach_mcast(ud, &kGroup, 0xc009) == 0);
  to_init(with_srq = make(IBV_QPT_RC, srq));
  xrc_send = make(IBV_QPT_XRC_SEND);
  xrc_receive = make(IBV_QPT_XRC_RECV);
  ibv_qp_open_attr again{};
  again.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  again.qp_num = xrc_receive->qp_num;
  again.xrcd = xrcd;
  again.qp_type = IBV_QPT_XRC_RECV;
  NEED((opened = ibv_open_qp(context, &again)) != nullptr);
  ibv_ah_attr self = to_self();
  NEED((ah = ibv_create_ah(pd, &self)) != nullptr);
}

ibv_sge World::sge(std::uint32_t length) const {
  return {reinterpret_cast<std::uintptr_t>(bytes.data()), length, mr->lkey};
}

std::string World::state() const {
  std::string text;
  for (ibv_qp* qp : {reset, init, rc, &builder->qp_base, uc, ud, with_srq, xrc_send, xrc_receive}) {
    text += text_of(qp);
  }
  for (ibv_srq* s : {srq, tm_srq, xrc_srq}) text += text_of(s);
  for (ibv_mr* m : {mr, other_mr, null_mr, dm_mr}) {
    text += "key " + std::to_string(m->lkey) + " " + std::to_string(m->rkey) + " length " +
            std::to_string(m->length) + "; ";
  }
  text += "window " + std::to_string(mw1->rkey) + " " + std::to_string(mw2->rkey) + "; ";
  for (ibv_cq* c : {cq, event_cq, ibv_cq_ex_to_cq(cq_ex)}) {
    ibv_wc wc;
    text +=
        "cq " + std::to_string(c->cqe) + " holds " + std::to_string(ibv_poll_cq(c, 1, &wc)) + "; ";
  }
  return text;
}

void World::destroy() {
  NEED(ibv_detach_mcast(ud, &kGroup, 0xc009) == 0);
  NEED(ibv_destroy_ah(ah) == 0);
  NEED(ibv_destroy_qp(opened) == 0);
  for (ibv_qp* qp : {reset, init, rc, &builder->qp_base, uc, ud, with_srq, xrc_send, xrc_receive}) {
    NEED(ibv_destroy_qp(qp) == 0);
  }
  for (ibv_srq* s : {srq, tm_srq, xrc_srq}) NEED(ibv_destroy_srq(s) == 0);
  NEED(ibv_close_xrcd(xrcd) == 0);
  for (ibv_cq* c : {cq, event_cq, ibv_cq_ex_to_cq(cq_ex)}) NEED(ibv_destroy_cq(c) == 0);
  NEED(ibv_destroy_comp_channel(channel) == 0);
  NEED(ibv_dealloc_mw(mw1) == 0 && ibv_dealloc_mw(mw2) == 0);
  for (ibv_mr* m : {mr, other_mr, null_mr, dm_mr}) NEED(ibv_dereg_mr(m) == 0);
  NEED(ibv_free_dm(dm) == 0);
  NEED(ibv_dealloc_td(td) == 0);
  NEED(ibv_dealloc_pd(pd) == 0 && ibv_dealloc_pd(other_pd) == 0);
  NEED(ibv_close_device(context) == 0);
}

Dead::Dead(World& w) {
  NEED((pd = ibv_alloc_pd(w.context)) != nullptr);
  pd_number = pd->handle;
  NEED(ibv_dealloc_pd(pd) == 0);
  NEED((imported = ibv_import_pd(w.context, w.pd->handle)) != nullptr);
  ibv_unimport_pd(imported);
  ibv_td_init_attr td_attr{};
  NEED((td = ibv_alloc_td(w.context, &td_attr)) != nullptr && ibv_dealloc_td(td) == 0);
  NEED((cq = ibv_create_cq(w.context, 1, nullptr, w.channel, 0)) != nullptr);
  ibv_cq_init_attr_ex ex{};
  ex.cqe = 1;
  NEED((cq_ex = ibv_create_cq_ex(w.context, &ex)) != nullptr);
  ibv_qp_init_attr_ex q{};
  q.qp_type = IBV_QPT_RC;
  q.send_cq = q.recv_cq = cq;
  q.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  q.pd = w.pd;
  q.send_ops_flags = IBV_QP_EX_WITH_SEND;
  NEED((qp = ibv_create_qp_ex(w.context, &q)) != nullptr);
  builder = ibv_qp_to_qp_ex(qp);
  qpn = qp->qp_num;
  NEED(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0);
  NEED(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)) == 0);
  NEED((mr = ibv_reg_mr(w.pd, w.bytes.data(), 64, +IBV_ACCESS_LOCAL_WRITE)) != nullptr);
  lkey = mr->lkey;
  mr_number = mr->handle;
  NEED(ibv_dereg_mr(mr) == 0);
  NEED((mw = ibv_alloc_mw(w.pd, IBV_MW_TYPE_1)) != nullptr && ibv_dealloc_mw(mw) == 0);
  ibv_alloc_dm_attr dm_attr{};
  dm_attr.length = 64;
  NEED((dm = ibv_alloc_dm(w.context, &dm_attr)) != nullptr);
  dm_number = dm->handle;
  NEED(ibv_free_dm(dm) == 0);
  ibv_srq_init_attr basic{};
  basic.attr = {1, 1, 0};
  NEED((srq = ibv_create_srq(w.pd, &basic)) != nullptr && ibv_destroy_srq(srq) == 0);
  ibv_xrcd_init_attr domain{};
  domain.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  domain.fd = -1;
  domain.oflags = 0100;
  NEED((xrcd = ibv_open_xrcd(w.context, &domain)) != nullptr && ibv_close_xrcd(xrcd) == 0);
  ibv_ah_attr self = w.to_self();
  NEED((ah = ibv_create_ah(w.pd, &self)) != nullptr && ibv_destroy_ah(ah) == 0);
}

}  // namespace refusals
