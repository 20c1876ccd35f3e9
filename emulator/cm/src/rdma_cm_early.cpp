// SPDX-License-Identifier: BSD-2-Clause
// Requests for a service that nobody offers yet. They wait a moment for a listener before they are
// refused: between the end of its preparations and its `rdma_listen` a server is not faster than a
// client here, as it is where each address and route takes a message to resolve.
#include <algorithm>

#include "verbena/cm/rdma_cm.hpp"

namespace verbena::cm {

TimeNs RdmaCm::next_deadline() const {
  TimeNs first = early_.empty() ? kNever : early_.front().until;
  for (const AskedNeighbour& asked : asked_) first = std::min(first, asked.look_at);
  return std::min({first, offer_at_, agent_.next_deadline()});
}

void RdmaCm::wait_for_listener(TimeNs now, const CmEvent& request) {
  if (early_.size() >= kMaxEarly) return refuse(now, request, true);
  early_.push_back({now + kListenPatience, request});
}

void RdmaCm::offer_early_requests(TimeNs now) {
  for (EarlyRequest& early : std::exchange(early_, {})) {
    // The peer may have given up meanwhile.
    const Connection* connection = agent_.connection(early.cause.id);
    if (connection != nullptr && connection->state() == ConnectionState::kIdle) {
      agent_.release(now, early.cause.id);
      continue;
    }
    if (!offer(now, early.cause)) early_.push_back(std::move(early));
  }
  drain(now);
}

void RdmaCm::handle_early_requests(TimeNs now) {
  const bool expires = !early_.empty() && early_.front().until <= now;
  if (offer_at_ <= now || (expires && offer_at_ != kNever)) {
    offer_at_ = kNever;
    offer_early_requests(now);
  }
  while (!early_.empty() && early_.front().until <= now) {
    refuse(now, early_.front().cause, true);
    early_.pop_front();
  }
  drain(now);
}

void RdmaCm::refuse(TimeNs now, const CmEvent& request, bool nobody_listens) {
  if (request.kind == CmEventKind::kReqReceived) {
    agent_.reject(now, request.id,
                  nobody_listens ? RejectReason::kInvalidServiceId : RejectReason::kConsumerDefined,
                  {});
  } else {
    const auto status = nobody_listens ? SidrStatus::kUnsupported : SidrStatus::kReject;
    agent_.send_sidr_rep(now, request.id, SidrRep{.status = status}, 0);
  }
  agent_.release(now, request.id);
}

}  // namespace verbena::cm
