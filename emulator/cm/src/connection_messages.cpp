// SPDX-License-Identifier: BSD-2-Clause
// Handles each message of a connection, state by state.
#include <algorithm>

#include "verbena/cm/connection.hpp"

namespace verbena::cm {

using enum ConnectionState;

void Connection::handle_first_req(const IpAddress& peer, const Mad& mad, const Req& req) {
  passive_ = true;
  peer_ = peer;
  transaction_id_ = mad.transaction_id;
  remote_id_ = req.local_comm_id;
  remote_ca_guid_ = req.local_ca_guid;
  max_retries_ = std::max<std::uint8_t>(req.max_cm_retries, 1);
  response_timeout_ = std::max(
      cm_timeout_ns(std::min<std::uint8_t>(req.local_response_timeout, 22)), cm_timeout_ns(14));
  negotiated_.remote_qpn = req.local_qpn;
  negotiated_.send_psn = req.starting_psn;
  negotiated_.responder_resources = req.initiator_depth;  // this side answers the peer's reads
  negotiated_.initiator_depth = req.responder_resources;
  negotiated_.retry_count = req.retry_count;
  negotiated_.rnr_retry_count = req.rnr_retry_count;
  negotiated_.path_mtu = req.path_mtu;
  wants_failover_ = req.alternate.local_lid != 0 || !req.alternate.local_gid.is_zero();
  negotiated_.path = req.primary;
  std::swap(negotiated_.path.local_lid, negotiated_.path.remote_lid);
  std::swap(negotiated_.path.local_gid, negotiated_.path.remote_gid);
  set_state(kReqReceived);
  post(CmEventKind::kReqReceived, &mad);
}

void Connection::handle_duplicate_req() {
  switch (state_) {
    case kReqReceived:
    case kMraReqSent:
      send(Mra{.local_comm_id = id_,
               .remote_comm_id = remote_id_,
               .answered = Answered::kReq,
               .service_timeout = kServiceTimeout});
      set_state(kMraReqSent);
      break;
    case kRepSent:
    case kMraRepReceived:
      out_.mads.push_back({device_, peer_, *unanswered_});
      break;
    case kTimewait: {
      Rej rej{.local_comm_id = id_, .remote_comm_id = remote_id_};
      rej.reason = RejectReason::kStaleConnection;
      send(rej);
      break;
    }
    default:
      break;  // a late REQ: the peer has the REP or will get it
  }
}

void Connection::handle(TimeNs now, const Mad& mad) {
  std::visit(
      [&](const auto& message) {
        if constexpr (requires { on(now, mad, message); }) on(now, mad, message);
      },
      mad.message);
}

void Connection::on(TimeNs, const Mad& mad, const Rep& rep) {
  switch (state_) {
    case kReqSent:
    case kMraReqReceived:
      stop_waiting();
      remote_id_ = rep.local_comm_id;
      remote_ca_guid_ = rep.local_ca_guid;
      negotiated_.remote_qpn = rep.local_qpn;
      negotiated_.send_psn = rep.starting_psn;
      negotiated_.rnr_retry_count = rep.rnr_retry_count;
      negotiated_.initiator_depth = rep.responder_resources;
      negotiated_.responder_resources = rep.initiator_depth;
      set_state(kRepReceived);
      post(CmEventKind::kRepReceived, &mad);
      break;
    case kRepReceived:
    case kMraRepSent:
      if (!is_from_peer(rep.local_comm_id)) return;
      send(Mra{.local_comm_id = id_,
               .remote_comm_id = remote_id_,
               .answered = Answered::kRep,
               .service_timeout = kServiceTimeout});
      set_state(kMraRepSent);
      break;
    case kEstablished:
      if (passive_ || !is_from_peer(rep.local_comm_id)) return;
      send(Rtu{.local_comm_id = id_, .remote_comm_id = remote_id_});  // the first RTU was lost
      break;
    case kTimewait:
    case kIdle:
      if (is_from_peer(rep.local_comm_id)) reject_again();
      break;
    default:
      break;
  }
}

void Connection::on(TimeNs, const Mad& mad, const Rtu& rtu) {
  if ((state_ != kRepSent && state_ != kMraRepReceived) || !is_from_peer(rtu.local_comm_id)) return;
  stop_waiting();
  set_state(kEstablished);
  post(CmEventKind::kEstablished, &mad);
}

void Connection::on(TimeNs now, const Mad&, const Mra& mra) {
  const TimeNs longer = now + cm_timeout_ns(mra.service_timeout) + response_timeout_;
  if ((state_ == kReqSent || state_ == kMraReqReceived) && mra.answered == Answered::kReq) {
    remote_id_ = mra.local_comm_id;
    deadline_ = longer;
    set_state(kMraReqReceived);
  } else if (state_ == kRepSent && mra.answered == Answered::kRep &&
             is_from_peer(mra.local_comm_id)) {
    // Repeats the REP during all that time, because nothing else makes up for a lost RTU.
    retries_left_ = static_cast<std::uint32_t>(max_retries_ * ((longer - now) / response_timeout_));
    set_state(kMraRepReceived);
  }
}

void Connection::on(TimeNs now, const Mad& mad, const Rej& rej) {
  switch (state_) {
    case kReqSent:
    case kMraReqReceived:
      // This side has sent no REP: the REJ answers one that another node has sent in its name.
      if (rej.answered == Answered::kRep) return;
      if (rej.reason == RejectReason::kStaleConnection) {
        enter_timewait(now);
      } else {
        set_state(kIdle);
      }
      break;
    case kReqReceived:
    case kMraReqSent:
      if (!is_from_peer(rej.local_comm_id)) return;
      set_state(kIdle);
      break;
    case kRepSent:
    case kMraRepReceived:
    case kRepReceived:
    case kMraRepSent:
    case kEstablished:
      if (!is_from_peer(rej.local_comm_id)) return;
      enter_timewait(now);
      break;
    default:
      return;
  }
  post(CmEventKind::kRejReceived, &mad);
}

void Connection::on(TimeNs now, const Mad& mad, const Dreq& dreq) {
  if (!is_from_peer(dreq.local_comm_id) || dreq.remote_qpn != local_qpn_) return;
  switch (state_) {
    case kRepSent:
    case kMraRepReceived:
    case kRepReceived:
    case kMraRepSent:
    case kEstablished:
      stop_waiting();
      dreq_transaction_id_ = mad.transaction_id;
      set_state(kDreqReceived);
      post(CmEventKind::kDreqReceived, &mad);
      break;
    case kDreqSent:  // both sides disconnected at once
      send_drep(mad.transaction_id);
      enter_timewait(now);
      post(CmEventKind::kDrepReceived, &mad);
      break;
    case kTimewait:  // this side's DREP was lost
    case kIdle:
      send_drep(mad.transaction_id);
      break;
    default:
      break;
  }
}

void Connection::on(TimeNs now, const Mad& mad, const Drep& drep) {
  if (state_ != kDreqSent || !is_from_peer(drep.local_comm_id)) return;
  enter_timewait(now);
  post(CmEventKind::kDrepReceived, &mad);
}

// Refuses the path, because no call of rdma_cm would let a program take it. Keeps no state, so that
// a duplicate gets the same answer.
void Connection::on(TimeNs, const Mad& mad, const Lap& lap) {
  if (state_ != kEstablished) return;
  Apr apr{.local_comm_id = id_, .remote_comm_id = lap.local_comm_id};
  apr.status = AlternatePathStatus::kUnsupported;
  if (lap.remote_qpn != local_qpn_) apr.status = AlternatePathStatus::kInvalidQpn;
  if (!is_from_peer(lap.local_comm_id)) apr.status = AlternatePathStatus::kInvalidCommId;
  out_.mads.push_back({device_, peer_, write_mad({mad.transaction_id, 0, apr})});
}

}  // namespace verbena::cm
