// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm/connection.hpp"

#include <algorithm>

#include "verbena/base/check.hpp"

namespace verbena::cm {

using enum ConnectionState;

const char* to_string(ConnectionState state) {
  static constexpr const char* kNames[] = {
      "idle",         "req_sent",      "mra_req_received", "rep_received",     "mra_rep_sent",
      "req_received", "mra_req_sent",  "rep_sent",         "mra_rep_received", "established",
      "dreq_sent",    "dreq_received", "timewait"};
  return kNames[static_cast<std::size_t>(state)];
}

Connection::Connection(CommId id, DeviceId device, std::uint64_t transaction_id, CmOutputs& out)
    : out_(out),
      id_(id),
      device_(device),
      transaction_id_(transaction_id),
      next_transaction_id_(transaction_id) {}

void Connection::set_state(ConnectionState next) {
  state_ = next;
  if (next == kIdle) stop_waiting();
}

void Connection::post(CmEventKind kind, const Mad* cause) {
  if (abandoned_) return;
  out_.events.push_back({kind, id_, cause == nullptr ? Mad{} : *cause});
}

void Connection::send(const Message& message, std::uint32_t attribute_modifier) {
  out_.mads.push_back({device_, peer_, write_mad({transaction_id_, attribute_modifier, message})});
}

void Connection::send_until_answered(TimeNs now, const Message& message,
                                     std::uint32_t attribute_modifier) {
  send(message, attribute_modifier);
  unanswered_ = std::make_unique<MadBytes>(out_.mads.back().bytes);
  retries_left_ = max_retries_;
  deadline_ = now + response_timeout_;
}

void Connection::stop_waiting() {
  unanswered_.reset();
  deadline_ = kNever;
}

// --- the user ---------------------------------------------------------------------------------

bool Connection::send_req(TimeNs now, const IpAddress& peer, const Req& req,
                          std::uint32_t ece_option) {
  if (state_ != kIdle || passive_) return false;
  VERBENA_CHECK(req.local_comm_id == id_);
  peer_ = peer;
  local_qpn_ = req.local_qpn;
  local_ca_guid_ = req.local_ca_guid;
  negotiated_.receive_psn = req.starting_psn;
  negotiated_.responder_resources = req.responder_resources;
  negotiated_.initiator_depth = req.initiator_depth;
  negotiated_.retry_count = req.retry_count;
  negotiated_.path_mtu = req.path_mtu;
  negotiated_.path = req.primary;
  send_until_answered(now, req, ece_option);
  set_state(kReqSent);
  return true;
}

bool Connection::send_rep(TimeNs now, Rep rep, std::uint32_t ece_option) {
  if (state_ != kReqReceived && state_ != kMraReqSent) return false;
  rep.local_comm_id = id_;
  rep.remote_comm_id = remote_id_;
  rep.failover_accepted = wants_failover_ ? kFailoverUnsupported : 0;
  local_qpn_ = rep.local_qpn;
  negotiated_.receive_psn = rep.starting_psn;
  negotiated_.responder_resources = rep.responder_resources;
  negotiated_.initiator_depth = rep.initiator_depth;
  send_until_answered(now, rep, ece_option);
  set_state(kRepSent);
  return true;
}

bool Connection::send_rtu() {
  if (state_ != kRepReceived && state_ != kMraRepSent) return false;
  send(Rtu{.local_comm_id = id_, .remote_comm_id = remote_id_});
  set_state(kEstablished);
  return true;
}

bool Connection::reject(TimeNs now, RejectReason reason,
                        std::span<const std::uint8_t> private_data) {
  Rej rej;
  rej.local_comm_id = id_;
  rej.remote_comm_id = remote_id_;
  rej.reason = reason;
  std::copy_n(private_data.begin(), std::min(private_data.size(), rej.private_data.size()),
              rej.private_data.begin());
  switch (state_) {
    case kReqSent:
    case kMraReqReceived:
      // The peer may hold the REQ. It finds its connection by this CA GUID and communication ID.
      rej.answered = Answered::kNone;
      write_bits(rej.info, Field{"ca_guid", 0, 0, 64}, local_ca_guid_);
      rej.info_length = 8;
      break;
    case kReqReceived:
    case kMraReqSent:
    case kRepSent:
    case kMraRepReceived:
      rej.answered = Answered::kReq;
      break;
    case kRepReceived:
    case kMraRepSent:
      rej.answered = Answered::kRep;
      break;
    default:
      return false;
  }
  send(rej);
  rejection_ = std::make_unique<MadBytes>(out_.mads.back().bytes);
  if (state_ == kRepReceived || state_ == kMraRepSent || state_ == kRepSent ||
      state_ == kMraRepReceived) {
    enter_timewait(now);  // data may be on its way
  } else {
    set_state(kIdle);
  }
  return true;
}

bool Connection::disconnect(TimeNs now) {
  if (state_ == kDreqReceived) {
    send_drep(dreq_transaction_id_);
    enter_timewait(now);
    return true;
  }
  if (state_ != kEstablished) return false;
  const std::uint64_t setup = transaction_id_;
  transaction_id_ = ++next_transaction_id_;
  send_until_answered(
      now,
      Dreq{
          .local_comm_id = id_, .remote_comm_id = remote_id_, .remote_qpn = negotiated_.remote_qpn},
      0);
  transaction_id_ = setup;
  set_state(kDreqSent);
  return true;
}

bool Connection::mark_established() {
  if (state_ != kRepSent && state_ != kMraRepReceived) return false;
  stop_waiting();
  set_state(kEstablished);
  post(CmEventKind::kEstablished);
  return true;
}

void Connection::abandon(TimeNs now) {
  abandoned_ = true;
  switch (state_) {
    case kReqSent:
    case kMraReqReceived:
      reject(now, RejectReason::kTimeout, {});
      break;
    case kReqReceived:
    case kMraReqSent:
    case kRepSent:
    case kMraRepReceived:
    case kRepReceived:
    case kMraRepSent:
      reject(now, RejectReason::kConsumerDefined, {});
      break;
    case kEstablished:
    case kDreqReceived:
      disconnect(now);
      break;
    case kIdle:
    case kDreqSent:
    case kTimewait:
      break;
  }
}

void Connection::reject_again() {
  if (rejection_ != nullptr) out_.mads.push_back({device_, peer_, *rejection_});
}

void Connection::send_drep(std::uint64_t transaction_id) {
  const Drep drep{.local_comm_id = id_, .remote_comm_id = remote_id_};
  out_.mads.push_back({device_, peer_, write_mad({transaction_id, 0, drep})});
}

void Connection::enter_timewait(TimeNs now) {
  set_state(kTimewait);
  stop_waiting();
  // Timewait lasts twice the packet lifetime. The ACK timeout is already one lifetime doubled.
  const std::uint8_t exponent = std::min<std::uint8_t>(negotiated_.path.local_ack_timeout, 18);
  deadline_ = now + cm_timeout_ns(exponent);
}

// --- the clock --------------------------------------------------------------------------------

void Connection::handle_timeout(TimeNs now) {
  if (now < deadline_) return;
  if (state_ == kTimewait) {
    set_state(kIdle);
    post(CmEventKind::kTimewaitExit);
    return;
  }
  VERBENA_CHECK(unanswered_ != nullptr);
  if (retries_left_ > 0) {
    --retries_left_;
    deadline_ = now + response_timeout_;
    out_.mads.push_back({device_, peer_, *unanswered_});
    return;
  }
  switch (state_) {
    case kReqSent:
    case kMraReqReceived:
      reject(now, RejectReason::kTimeout, {});
      post(CmEventKind::kReqTimeout);
      break;
    case kRepSent:
    case kMraRepReceived:
      reject(now, RejectReason::kTimeout, {});
      post(CmEventKind::kRepTimeout);
      break;
    case kDreqSent:
      post(CmEventKind::kDreqTimeout);
      enter_timewait(now);
      break;
    default:
      VERBENA_CHECK(false && "a deadline in a state that has none");
  }
}

}  // namespace verbena::cm
