// SPDX-License-Identifier: BSD-2-Clause
// The attributes of a queue pair: ibv_modify_qp and ibv_query_qp.
#include <cerrno>

#include "verbena/context/context.hpp"
#include "verbena/context/qp_state.hpp"
#include "verbena/report/guard.hpp"
#include "verbena/verbs/parts.hpp"
#include "verbena/verbs/verbs.hpp"

namespace verbena::provider {
namespace {

int modify_qp(ibv_qp* q, ibv_qp_attr* attr, int attr_mask) noexcept {
  return errno_of([&] {
    Qp& qp = object_of(q);
    qp.home.check_alive("ibv_modify_qp");
    check_given("ibv_modify_qp", "attr", attr);
    const auto mask = static_cast<unsigned>(attr_mask);
    check_values(*attr, mask);
    if (qp.is_remote) return qp.context.receivers().modify(qp, *attr, mask);
    const auto refused = modify_state(qp, *attr, mask, Port::MayAsk::kYes);
    if (refused) throw VerbRefused{refused->error != 0 ? refused->error : EINVAL};
  });
}

void fill_init(ibv_qp_init_attr& to, const Qp& qp) {
  to.qp_context = qp.abi.qp.qp_context;
  to.send_cq = qp.abi.qp.send_cq;
  to.recv_cq = qp.abi.qp.recv_cq;
  to.srq = qp.abi.qp.srq;
  to.cap = qp.caps;
  to.qp_type = qp.abi.qp.qp_type;
  to.sq_sig_all = qp.signal_all ? 1 : 0;
}

int query_qp(ibv_qp* q, ibv_qp_attr* attr, int, ibv_qp_init_attr* init) noexcept {
  Qp& qp = object_of(q);
  if (attr == nullptr || init == nullptr) {
    return refusal(EINVAL, "ibv_query_qp: %s is NULL", attr == nullptr ? "attr" : "init_attr");
  }
  return errno_of([&] {
    if (qp.is_remote) {
      qp.context.receivers().query(qp, *attr);
    } else {
      query_state(qp, *attr);
    }
    fill_init(*init, qp);
  });
}

int query_qp_data_in_order(ibv_qp* q, ibv_wr_opcode opcode, std::uint32_t) noexcept {
  // Packets are placed in the order of their PSNs, and the last byte of each packet is placed last.
  const Transport transport = object_of(q).pair->transport();
  return is_reliable(transport) && opcode != IBV_WR_RDMA_READ ? 1 : 0;
}

int modify_qp_rate_limit(ibv_qp* q, ibv_qp_rate_limit_attr* attr) noexcept {
  return errno_of([&] {
    check_given("ibv_modify_qp_rate_limit", "attr", attr);
    if (attr->comp_mask != 0) refuse(EINVAL, "ibv_modify_qp_rate_limit: comp_mask must be 0");
    Qp& qp = object_of(q);
    const Guard guard(qp.pair->lock());
    if (qp.pair->state() != qp::State::kRts) {
      refuse(EINVAL, "ibv_modify_qp_rate_limit: queue pair 0x%06x is in state %s, must be RTS",
             q->qp_num, qp::to_string(qp.pair->state()));
    }
  });
}

}  // namespace

void offer_state_verbs(abi::Ops& ops) {
  ops.modify_qp = &modify_qp;
  ops.query_qp = &query_qp;
  ops.query_qp_data_in_order = &query_qp_data_in_order;
  ops.modify_qp_rate_limit = &modify_qp_rate_limit;
}

}  // namespace verbena::provider
