// SPDX-License-Identifier: BSD-2-Clause
#include <algorithm>

#include "verbena/cm/rdma_cm.hpp"

namespace verbena::cm {

TimeNs RdmaCm::next_deadline() const {
  return std::min({early_.next_deadline(), neighbours_.next_deadline(), agent_.next_deadline()});
}

void RdmaCm::handle_early_requests(TimeNs now) {
  if (early_.take_offer(now)) {
    early_.offer([&](const CmEvent& request) {
      // The peer may have given up meanwhile.
      const Connection* connection = agent_.connection(request.id);
      if (connection == nullptr || connection->state() != ConnectionState::kIdle) {
        return offer(now, request);
      }
      agent_.release(now, request.id);
      return true;
    });
    drain(now);
  }
  while (const std::optional<CmEvent> request = early_.take_expired(now)) {
    refuse(now, *request, true);
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
