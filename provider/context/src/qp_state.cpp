// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/qp_state.hpp"

#include <cerrno>

#include "verbena/context/address_vector.hpp"
#include "verbena/link/clock.hpp"
#include "verbena/report/explain.hpp"

namespace verbena::provider {
namespace {

static_assert(IBV_QPS_RESET == static_cast<int>(qp::State::kReset) &&
              IBV_QPS_SQD == static_cast<int>(qp::State::kSqd) &&
              IBV_QPS_ERR == static_cast<int>(qp::State::kError));
static_assert(+IBV_QP_STATE == +qp::kMaskState && +IBV_QP_DEST_QPN == +qp::kMaskDestQpn &&
              +IBV_QP_ALT_PATH == +qp::kMaskAlternatePath && +IBV_QP_CAP == +qp::kMaskCapabilities);

// The engine's queue pair numbers have 24 bits.
void check_destination(std::uint32_t number) {
  constexpr std::uint32_t kMost = 0xffffff;
  if (number > kMost) {
    refuse(EINVAL, "ibv_modify_qp: dest_qp_num = 0x%x is more than a queue pair number's 24 bits",
           number);
  }
}

// The engine has eight bits for path_mtu. A program that gives a number of bytes gets an
// explanation.
void check_path_mtu(ibv_mtu mtu) {
  if (static_cast<unsigned>(mtu) > 0xff) {
    refuse(EINVAL,
           "ibv_modify_qp: path_mtu is %u; expected is a value of enum ibv_mtu, 1 (256 bytes) to 5 "
           "(4096 bytes)",
           static_cast<unsigned>(mtu));
  }
}

void check_state(const char* name, ibv_qp_state state) {
  if (static_cast<unsigned>(state) > IBV_QPS_ERR) {
    refuse(EINVAL, "ibv_modify_qp: %s = %d is not a state", name, static_cast<int>(state));
  }
}

qp::State state_of(ibv_qp_state state) {
  // check_values() has refused values outside the enumeration.
  return static_cast<qp::State>(state);
}

qp::Attributes attributes_of(const ibv_qp_attr& a, unsigned mask, Port& port,
                             Port::MayAsk may_ask) {
  constexpr const char* kVerb = "ibv_modify_qp";
  qp::Attributes to;
  to.state = state_of(a.qp_state);
  to.current_state = state_of(a.cur_qp_state);
  to.sqd_notify = a.en_sqd_async_notify != 0;
  to.access_flags = a.qp_access_flags;
  to.pkey_index = a.pkey_index;
  to.port = a.port_num;
  to.qkey = a.qkey;
  if ((mask & IBV_QP_AV) != 0) to.path = port.path_to(kVerb, a.ah_attr, may_ask);
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
  if ((mask & IBV_QP_ALT_PATH) != 0) to.alternate = port.path_to(kVerb, a.alt_ah_attr, may_ask);
  to.alternate_pkey_index = a.alt_pkey_index;
  to.alternate_timeout = a.alt_timeout;
  to.rate_limit = a.rate_limit;
  return to;
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

}  // namespace

void check_values(const ibv_qp_attr& attr, unsigned mask) {
  if ((mask & IBV_QP_STATE) != 0) check_state("qp_state", attr.qp_state);
  if ((mask & IBV_QP_CUR_STATE) != 0) check_state("cur_qp_state", attr.cur_qp_state);
  if ((mask & IBV_QP_DEST_QPN) != 0) check_destination(attr.dest_qp_num);
  if ((mask & IBV_QP_PATH_MTU) != 0) check_path_mtu(attr.path_mtu);
}

std::optional<qp::Refused> modify_state(Qp& qp, const ibv_qp_attr& attr, unsigned mask,
                                        Port::MayAsk may_ask) {
  const bool moves = (mask & IBV_QP_STATE) != 0;
  const bool forgets = attr.qp_state == IBV_QPS_RESET || attr.qp_state == IBV_QPS_ERR;
  if (moves && forgets) {
    qp.engine.catch_up();
  }
  if (moves && attr.qp_state == IBV_QPS_RTR && qp.pair->transport() == Transport::kUd) {
    qp.home.port().open_all_addresses();
  }
  const qp::Attributes wanted = attributes_of(attr, mask, qp.home.port(), may_ask);
  const auto refused =
      qp.engine.device().modify_qp(*qp.pair, wanted, mask, link::monotonic_now_ns());
  if (!refused && moves && attr.qp_state == IBV_QPS_RTR) {
    const Guard guard(qp.pair->lock());
    qp.posts.has_new_peer = true;
  }
  return refused;
}

void query_state(const Qp& qp, ibv_qp_attr& attr) {
  qp::Attributes now;
  bool draining = false;
  {
    const Guard guard(qp.pair->lock());
    now = qp.pair->attributes();
    now.state = qp.pair->state();
    const requester::Requester& requester = qp.pair->requester();
    if (now.state == qp::State::kRts || now.state == qp::State::kSqd) {
      now.sq_psn = requester.next_psn();
    }
    draining = now.state == qp::State::kSqd && !requester.is_drained();
    if (now.state != qp::State::kReset && now.state != qp::State::kInit &&
        now.state != qp::State::kError) {
      now.rq_psn = qp.pair->expected_psn();
    }
  }
  fill_attr(attr, now, qp);
  attr.sq_draining = draining ? 1 : 0;
}

}  // namespace verbena::provider
