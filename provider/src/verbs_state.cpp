// SPDX-License-Identifier: BSD-2-Clause
// The attributes of a queue pair: ibv_modify_qp and ibv_query_qp.
#include <cerrno>
#include <cstring>

#include "context.hpp"
#include "guard.hpp"
#include "parts.hpp"
#include "qp_state.hpp"
#include "translate.hpp"
#include "verbena/link/clock.hpp"
#include "verbs.hpp"

namespace verbena::provider {
namespace {

static_assert(IBV_QPS_RESET == static_cast<int>(qp::State::kReset) &&
              IBV_QPS_SQD == static_cast<int>(qp::State::kSqd) &&
              IBV_QPS_ERR == static_cast<int>(qp::State::kError));
static_assert(+IBV_QP_STATE == +qp::kMaskState && +IBV_QP_DEST_QPN == +qp::kMaskDestQpn &&
              +IBV_QP_ALT_PATH == +qp::kMaskAlternatePath && +IBV_QP_CAP == +qp::kMaskCapabilities);

qp::State state_of(ibv_qp_state state) {
  // Values beyond the enumeration are refused before.
  return static_cast<qp::State>(state);
}

qp::Attributes attributes_of(const ibv_qp_attr& a, unsigned mask, Context& context,
                             Context::MayAsk may_ask) {
  constexpr const char* kVerb = "ibv_modify_qp";
  qp::Attributes to;
  to.state = state_of(a.qp_state);
  to.current_state = state_of(a.cur_qp_state);
  to.sqd_notify = a.en_sqd_async_notify != 0;
  to.access_flags = a.qp_access_flags;
  to.pkey_index = a.pkey_index;
  to.port = a.port_num;
  to.qkey = a.qkey;
  if ((mask & IBV_QP_AV) != 0) to.path = context.path_to(kVerb, a.ah_attr, may_ask);
  to.path_mtu = static_cast<Mtu>(a.path_mtu);
  to.timeout = a.timeout;
  to.retry_count = a.retry_cnt;
  to.rnr_retry = a.rnr_retry;
  to.rq_psn = Psn(a.rq_psn);
  to.sq_psn = Psn(a.sq_psn);
  to.max_rd_atomic = a.max_rd_atomic;
  to.max_dest_rd_atomic = a.max_dest_rd_atomic;
  to.min_rnr_timer = a.min_rnr_timer;
  to.dest_qpn = Qpn(a.dest_qp_num);
  to.migration = static_cast<qp::Migration>(a.path_mig_state);
  if ((mask & IBV_QP_ALT_PATH) != 0) to.alternate = context.path_to(kVerb, a.alt_ah_attr, may_ask);
  to.alternate_pkey_index = a.alt_pkey_index;
  to.alternate_timeout = a.alt_timeout;
  to.rate_limit = a.rate_limit;
  return to;
}

// The engine's number has no room for more.
void check_destination(std::uint32_t number) {
  constexpr std::uint32_t kMost = 0xffffff;
  if (number > kMost) {
    refuse(EINVAL, "ibv_modify_qp: dest_qp_num = 0x%x is more than a queue pair number's 24 bits",
           number);
  }
}

void check_state(const char* name, ibv_qp_state state) {
  if (static_cast<unsigned>(state) > IBV_QPS_ERR) {
    refuse(EINVAL, "ibv_modify_qp: %s = %d is not a state", name, static_cast<int>(state));
  }
}

int modify_qp(ibv_qp* q, ibv_qp_attr* attr, int attr_mask) noexcept {
  return errno_of([&] {
    Qp& qp = object_of(q);
    qp.context.check_alive("ibv_modify_qp");
    check_given("ibv_modify_qp", "attr", attr);
    const auto mask = static_cast<unsigned>(attr_mask);
    if ((mask & IBV_QP_STATE) != 0) check_state("qp_state", attr->qp_state);
    if ((mask & IBV_QP_CUR_STATE) != 0) check_state("cur_qp_state", attr->cur_qp_state);
    if ((mask & IBV_QP_DEST_QPN) != 0) check_destination(attr->dest_qp_num);
    if (qp.is_remote) return qp.context.receivers().modify(qp, *attr, mask);
    const auto refused = modify_state(qp, *attr, mask, Context::MayAsk::kYes);
    if (refused) throw VerbRefused{refused->error != 0 ? refused->error : EINVAL};
  });
}

void fill_attr(ibv_qp_attr& to, const qp::Attributes& a, const Qp& qp) {
  to = {};
  to.qp_state = static_cast<ibv_qp_state>(a.state);
  to.cur_qp_state = static_cast<ibv_qp_state>(a.state);
  to.path_mtu = static_cast<ibv_mtu>(a.path_mtu);
  to.path_mig_state = static_cast<ibv_mig_state>(a.migration);
  to.qkey = a.qkey;
  to.rq_psn = a.rq_psn.value();
  to.sq_psn = a.sq_psn.value();
  to.dest_qp_num = a.dest_qpn.value();
  to.qp_access_flags = a.access_flags;
  to.cap = qp.caps;
  to.ah_attr = ah_attr_of(a.path);
  to.alt_ah_attr = ah_attr_of(a.alternate);
  to.pkey_index = a.pkey_index;
  to.alt_pkey_index = a.alternate_pkey_index;
  to.en_sqd_async_notify = a.sqd_notify ? 1 : 0;
  to.max_rd_atomic = a.max_rd_atomic;
  to.max_dest_rd_atomic = a.max_dest_rd_atomic;
  to.min_rnr_timer = a.min_rnr_timer;
  to.port_num = a.port;
  to.timeout = a.timeout;
  to.retry_cnt = a.retry_count;
  to.rnr_retry = a.rnr_retry;
  to.alt_port_num = a.alternate.port;
  to.alt_timeout = a.alternate_timeout;
  to.rate_limit = a.rate_limit;
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
  // Packets are placed in the order of their PSNs, and the end of each last.
  const Transport transport = object_of(q).engine->transport();
  return is_reliable(transport) && opcode != IBV_WR_RDMA_READ ? 1 : 0;
}

int modify_qp_rate_limit(ibv_qp* q, ibv_qp_rate_limit_attr* attr) noexcept {
  return errno_of([&] {
    check_given("ibv_modify_qp_rate_limit", "attr", attr);
    if (attr->comp_mask != 0) refuse(EINVAL, "ibv_modify_qp_rate_limit: comp_mask must be 0");
    Qp& qp = object_of(q);
    const Guard guard(qp.engine->lock());
    if (qp.engine->state() != qp::State::kRts) {
      refuse(EINVAL, "ibv_modify_qp_rate_limit: queue pair 0x%06x is in state %s, must be RTS",
             q->qp_num, qp::to_string(qp.engine->state()));
    }
  });
}

}  // namespace

std::optional<qp::Refused> modify_state(Qp& qp, const ibv_qp_attr& attr, unsigned mask,
                                        Context::MayAsk may_ask) {
  const bool moves = (mask & IBV_QP_STATE) != 0;
  const bool forgets = attr.qp_state == IBV_QPS_RESET || attr.qp_state == IBV_QPS_ERR;
  if (moves && forgets) {
    qp.context.catch_up();
  }
  if (moves && attr.qp_state == IBV_QPS_RTR && qp.engine->transport() == Transport::kUd) {
    qp.context.open_all_addresses();
  }
  const qp::Attributes wanted = attributes_of(attr, mask, qp.context, may_ask);
  const auto refused =
      qp.context.device().modify_qp(*qp.engine, wanted, mask, link::monotonic_now_ns());
  if (!refused && moves && attr.qp_state == IBV_QPS_RTR) {
    const Guard guard(qp.engine->lock());
    qp.has_new_peer = true;
  }
  return refused;
}

void query_state(const Qp& qp, ibv_qp_attr& attr) {
  qp::Attributes now;
  bool draining = false;
  {
    const Guard guard(qp.engine->lock());
    now = qp.engine->attributes();
    now.state = qp.engine->state();
    const requester::Requester& requester = qp.engine->requester();
    if (now.state == qp::State::kRts || now.state == qp::State::kSqd) {
      now.sq_psn = requester.next_psn();
    }
    draining = now.state == qp::State::kSqd && !requester.is_drained();
    if (now.state != qp::State::kReset && now.state != qp::State::kInit &&
        now.state != qp::State::kError) {
      now.rq_psn = qp.engine->expected_psn();
    }
  }
  fill_attr(attr, now, qp);
  attr.sq_draining = draining ? 1 : 0;
}

void offer_state_verbs(abi::Ops& ops) {
  ops.modify_qp = &modify_qp;
  ops.query_qp = &query_qp;
  ops.query_qp_data_in_order = &query_qp_data_in_order;
  ops.modify_qp_rate_limit = &modify_qp_rate_limit;
}

}  // namespace verbena::provider
