// SPDX-License-Identifier: BSD-2-Clause
// Handles of destroyed objects, as a verb's argument and in attributes; and what only raw Ethernet
// has.
#include <cerrno>

#include "refusals.hpp"

namespace refusals {
namespace {

constexpr const char* kDead = "the handle is of an object that was destroyed before";

int create_qp(Case& c, ibv_pd* pd, ibv_cq* cq, ibv_srq* srq) {
  ibv_qp_init_attr a{};
  a.qp_type = IBV_QPT_RC;
  a.send_cq = a.recv_cq = cq;
  a.srq = srq;
  a.cap = {1, 1, 1, 1, 0};
  (void)c;
  return made(ibv_create_qp(pd, &a));
}

int create_srq_ex(Case& c, ibv_pd* pd, ibv_cq* cq, ibv_xrcd* xrcd) {
  ibv_srq_init_attr_ex a{};
  a.attr = {1, 1, 0};
  a.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_XRCD;
  a.srq_type = IBV_SRQT_XRC;
  a.pd = pd;
  a.cq = cq;
  a.xrcd = xrcd;
  return made(ibv_create_srq_ex(c.w.context, &a));
}

}  // namespace

std::vector<Row> dead_rows() {
  return {
      {"ibv_dealloc_pd", "destroyed", EINVAL, kDead,
       [](Case& c) { return ibv_dealloc_pd(c.dead.pd); }}  // namespace refusals
      ,
      {"ibv_dealloc_pd", "given back", EINVAL, kDead,
       [](Case& c) { return ibv_dealloc_pd(c.dead.imported); }},
      {"ibv_reg_mr", "destroyed pd", EINVAL, kDead,
       [](Case& c) {
         return made(ibv_reg_mr(c.dead.pd, c.w.bytes.data(), 64, +IBV_ACCESS_LOCAL_WRITE));
       }},
      {"ibv_alloc_mw", "destroyed pd", EINVAL, kDead,
       [](Case& c) { return made(ibv_alloc_mw(c.dead.pd, IBV_MW_TYPE_1)); }},
      {"ibv_create_ah", "destroyed pd", EINVAL, kDead,
       [](Case& c) {
         ibv_ah_attr a = c.w.to_self();
         return made(ibv_create_ah(c.dead.pd, &a));
       }},
      {"ibv_create_qp", "destroyed pd", EINVAL, kDead,
       [](Case& c) { return create_qp(c, c.dead.pd, c.w.cq, nullptr); }},
      {"ibv_create_qp", "destroyed cq", EINVAL, "send_cq was destroyed",
       [](Case& c) { return create_qp(c, c.w.pd, c.dead.cq, nullptr); }},
      {"ibv_create_qp", "destroyed srq", EINVAL, "srq was destroyed",
       [](Case& c) { return create_qp(c, c.w.pd, c.w.cq, c.dead.srq); }},
      {"ibv_create_srq_ex", "destroyed pd", EINVAL, "pd was destroyed",
       [](Case& c) { return create_srq_ex(c, c.dead.pd, c.w.cq, c.w.xrcd); }},
      {"ibv_create_srq_ex", "destroyed cq", EINVAL, "cq was destroyed",
       [](Case& c) { return create_srq_ex(c, c.w.pd, c.dead.cq, c.w.xrcd); }},
      {"ibv_create_srq_ex", "destroyed xrcd", EINVAL, "xrcd was destroyed",
       [](Case& c) { return create_srq_ex(c, c.w.pd, c.w.cq, c.dead.xrcd); }},
      {"ibv_dereg_mr", "destroyed", EINVAL, kDead, [](Case& c) { return ibv_dereg_mr(c.dead.mr); }},
      {"ibv_dealloc_mw", "destroyed", EINVAL, kDead,
       [](Case& c) { return ibv_dealloc_mw(c.dead.mw); }},
      {"ibv_bind_mw", "destroyed window", EINVAL, kDead,
       [](Case& c) {
         ibv_mw_bind b{};
         return ibv_bind_mw(c.w.rc, c.dead.mw, &b);
       }},
      {"ibv_free_dm", "destroyed", EINVAL, kDead, [](Case& c) { return ibv_free_dm(c.dead.dm); }},
      {"ibv_memcpy_to_dm", "destroyed", EINVAL, "was destroyed before",
       [](Case& c) { return ibv_memcpy_to_dm(c.dead.dm, 0, c.w.bytes.data(), 8); }},
      {"ibv_memcpy_from_dm", "destroyed", EINVAL, "was destroyed before",
       [](Case& c) { return ibv_memcpy_from_dm(c.w.bytes.data(), c.dead.dm, 0, 8); }},
      {"ibv_dealloc_td", "destroyed", EINVAL, kDead,
       [](Case& c) { return ibv_dealloc_td(c.dead.td); }},
      {"ibv_close_xrcd", "destroyed", EINVAL, kDead,
       [](Case& c) { return ibv_close_xrcd(c.dead.xrcd); }},
      {"ibv_destroy_ah", "destroyed", EINVAL, kDead,
       [](Case& c) { return ibv_destroy_ah(c.dead.ah); }},
      {"ibv_destroy_cq", "destroyed", EINVAL, kDead,
       [](Case& c) { return ibv_destroy_cq(c.dead.cq); }},
      {"ibv_resize_cq", "destroyed", EINVAL, kDead,
       [](Case& c) { return ibv_resize_cq(c.dead.cq, 5); }},
      {"ibv_req_notify_cq", "destroyed", EINVAL, kDead,
       [](Case& c) { return ibv_req_notify_cq(c.dead.cq, 0); }},
      {"ibv_poll_cq", "destroyed", -EINVAL, kDead,
       [](Case& c) {
         ibv_wc wc;
         return ibv_poll_cq(c.dead.cq, 1, &wc);
       }},
      {"ibv_start_poll", "destroyed", EINVAL, kDead,
       [](Case& c) {
         ibv_poll_cq_attr a{};
         return ibv_start_poll(c.dead.cq_ex, &a);
       }},
      {"ibv_destroy_srq", "destroyed", EINVAL, kDead,
       [](Case& c) { return ibv_destroy_srq(c.dead.srq); }},
      {"ibv_query_srq", "destroyed", EINVAL, kDead,
       [](Case& c) {
         ibv_srq_attr a;
         return ibv_query_srq(c.dead.srq, &a);
       }},
      {"ibv_post_srq_recv", "destroyed", EINVAL, kDead,
       [](Case& c) {
         ibv_recv_wr wr{};
         ibv_recv_wr* bad = nullptr;
         const int error = ibv_post_srq_recv(c.dead.srq, &wr, &bad);
         return bad == &wr ? error : -1;
       }},
      {"ibv_destroy_qp", "destroyed", EINVAL, kDead,
       [](Case& c) { return ibv_destroy_qp(c.dead.qp); }},
      {"ibv_modify_qp", "destroyed", EINVAL, kDead,
       [](Case& c) {
         ibv_qp_attr a{};
         return ibv_modify_qp(c.dead.qp, &a, IBV_QP_STATE);
       }},
      {"ibv_query_qp", "destroyed", EINVAL, kDead,
       [](Case& c) {
         ibv_qp_attr a;
         ibv_qp_init_attr init;
         return ibv_query_qp(c.dead.qp, &a, IBV_QP_STATE, &init);
       }},
      {"ibv_post_send", "destroyed", EINVAL, kDead,
       [](Case& c) {
         ibv_send_wr wr{};
         ibv_send_wr* bad = nullptr;
         const int error = ibv_post_send(c.dead.qp, &wr, &bad);
         return bad == &wr ? error : -1;
       }},
      {"ibv_post_recv", "destroyed", EINVAL, kDead,
       [](Case& c) {
         ibv_recv_wr wr{};
         ibv_recv_wr* bad = nullptr;
         const int error = ibv_post_recv(c.dead.qp, &wr, &bad);
         return bad == &wr ? error : -1;
       }},
      {"ibv_wr_complete", "destroyed", EINVAL, kDead,
       [](Case& c) {
         ibv_wr_start(c.dead.builder);
         ibv_wr_send(c.dead.builder);
         ibv_wr_set_sge(c.dead.builder, c.w.mr->lkey, 0, 8);
         return ibv_wr_complete(c.dead.builder);
       }},
      {"ibv_attach_mcast", "destroyed", EINVAL, kDead,
       [](Case& c) { return ibv_attach_mcast(c.dead.qp, &kGroup, 0xc009); }},
  };
}

std::vector<Row> raw_rows() {
  return {
      {"ibv_create_flow", "any", EOPNOTSUPP, nullptr,
       [](Case& c) {
         ibv_flow_attr a{};
         return made(ibv_create_flow(c.w.ud, &a));
       }},
      {"ibv_create_wq", "any", EOPNOTSUPP, nullptr,
       [](Case& c) {
         ibv_wq_init_attr a{};
         a.pd = c.w.pd;
         a.cq = c.w.cq;
         return made(ibv_create_wq(c.w.context, &a));
       }},
      {"ibv_create_rwq_ind_table", "any", EOPNOTSUPP, nullptr,
       [](Case& c) {
         ibv_rwq_ind_table_init_attr a{};
         return made(ibv_create_rwq_ind_table(c.w.context, &a));
       }},
      {"ibv_create_counters", "any", EOPNOTSUPP, nullptr,
       [](Case& c) {
         ibv_counters_init_attr a{};
         return made(ibv_create_counters(c.w.context, &a));
       }},
      {"ibv_create_flow_action_esp", "any", EOPNOTSUPP, nullptr,
       [](Case& c) {
         ibv_flow_action_esp_attr a{};
         return made(ibv_create_flow_action_esp(c.w.context, &a));
       }},
  };
}

}  // namespace refusals
