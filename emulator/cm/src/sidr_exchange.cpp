// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm/sidr_exchange.hpp"

namespace verbena::cm {
namespace {

// How long the next repetition may reasonably take to come.
constexpr TimeNs kKeepReply = 4 * cm_timeout_ns(kResponseTimeout);

}  // namespace

void SidrExchange::finish() {
  state_ = State::kIdle;
  deadline_ = kNever;
  sent_.reset();
}

bool SidrExchange::send_req(TimeNs now, const IpAddress& peer, const SidrReq& req,
                            std::uint64_t transaction_id) {
  if (state_ != State::kIdle || passive_) return false;
  peer_ = peer;
  request_id_ = req.request_id;
  sent_ = std::make_unique<MadBytes>(write_mad({transaction_id, 0, req}));
  out_.mads.push_back({device_, peer_, *sent_});
  retries_left_ = kMaxRetries;
  deadline_ = now + cm_timeout_ns(kResponseTimeout);
  state_ = State::kReqSent;
  return true;
}

bool SidrExchange::send_rep(TimeNs now, SidrRep rep, std::uint32_t ece_option) {
  if (state_ != State::kReqReceived) return false;
  rep.request_id = request_id_;
  rep.service_id = service_id_;
  sent_ = std::make_unique<MadBytes>(write_mad({transaction_id_, ece_option, rep}));
  out_.mads.push_back({device_, peer_, *sent_});
  deadline_ = now + kKeepReply;
  state_ = State::kReplied;
  return true;
}

void SidrExchange::abandon(TimeNs now) {
  if (state_ == State::kReqReceived) send_rep(now, SidrRep{.status = SidrStatus::kReject}, 0);
  abandoned_ = true;
  if (state_ == State::kReqSent) finish();
}

void SidrExchange::handle_first_req(const IpAddress& peer, const Mad& mad, const SidrReq& req) {
  passive_ = true;
  peer_ = peer;
  request_id_ = req.request_id;
  service_id_ = req.service_id;
  transaction_id_ = mad.transaction_id;
  state_ = State::kReqReceived;
  out_.events.push_back({CmEventKind::kSidrReqReceived, id_, mad});
}

void SidrExchange::handle_duplicate_req(TimeNs now) {
  if (state_ != State::kReplied) return;
  out_.mads.push_back({device_, peer_, *sent_});
  deadline_ = now + kKeepReply;
}

void SidrExchange::handle_rep(const Mad& mad) {
  if (state_ != State::kReqSent) return;
  finish();
  if (!abandoned_) out_.events.push_back({CmEventKind::kSidrRepReceived, id_, mad});
}

void SidrExchange::handle_timeout(TimeNs now) {
  if (now < deadline_) return;
  if (state_ == State::kReqSent && retries_left_ > 0) {
    --retries_left_;
    deadline_ = now + cm_timeout_ns(kResponseTimeout);
    out_.mads.push_back({device_, peer_, *sent_});
    return;
  }
  const bool unanswered = state_ == State::kReqSent;
  finish();
  if (unanswered && !abandoned_) out_.events.push_back({CmEventKind::kSidrTimeout, id_, Mad{}});
}

}  // namespace verbena::cm
