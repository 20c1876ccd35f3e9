// SPDX-License-Identifier: BSD-2-Clause
// Connections as the program makes them: connect, accept, reject, disconnect.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "verbena/cm/connection_requests.hpp"
#include "verbena/cm/rdma_cm.hpp"

namespace verbena::cm {

int RdmaCm::connect_rc(TimeNs now, RdmaId& id, const ConnParam& param, const Ece& ece) {
  const PortInfo* port = ports_.find(*id.device);
  if (port == nullptr) return ENODEV;
  const std::optional<Req> req = req_of(id, *port, path_of(id, *port), param, ece);
  if (!req) return EINVAL;
  ids_.connect(id, agent_.new_connection(*id.device));
  agent_.send_req(now, id.comm, id.peer, *req, ece.option);
  return 0;
}

int RdmaCm::connect_ud(TimeNs now, RdmaId& id, const ConnParam& param) {
  const PortInfo* port = ports_.find(*id.device);
  if (port == nullptr) return ENODEV;
  const std::optional<SidrReq> req = sidr_req_of(id, *port, param);
  if (!req) return EINVAL;
  ids_.connect(id, agent_.new_sidr(*id.device));
  agent_.send_sidr_req(now, id.comm, id.peer, *req);
  return 0;
}

int RdmaCm::connect(TimeNs now, ChannelId channel, IdHandle handle, const ConnParam& param,
                    const Ece& ece) {
  RdmaId* id = nullptr;
  if (const int error = find(channel, handle, id)) return error;
  if (id->state != IdState::kRouteResolved) return EINVAL;
  id->qp_num = param.qp_num;
  id->srq = param.srq;
  const int error = id->is_ud() ? connect_ud(now, *id, param) : connect_rc(now, *id, param, ece);
  if (error != 0) return error;
  id->state = IdState::kConnecting;
  drain(now);
  return 0;
}

int RdmaCm::accept_rc(TimeNs now, RdmaId& id, const ConnParam& param, const Ece& ece) {
  const PortInfo* port = ports_.find(*id.device);
  const Connection* connection = agent_.connection(id.comm);
  if (port == nullptr || connection == nullptr) return EINVAL;
  const std::optional<Rep> rep = rep_of(id, *port, param, ece);
  return rep && agent_.send_rep(now, id.comm, *rep, ece.option) ? 0 : EINVAL;
}

int RdmaCm::accept_ud(TimeNs now, RdmaId& id, const ConnParam& param, const Ece& ece) {
  const std::optional<SidrRep> rep = sidr_rep_of(id, param, ece);
  if (!rep) return EINVAL;
  if (param.qkey != 0) id.qkey = param.qkey;
  return agent_.send_sidr_rep(now, id.comm, *rep, ece.option) ? 0 : EINVAL;
}

int RdmaCm::accept(TimeNs now, ChannelId channel, IdHandle handle, std::uint64_t uid,
                   const ConnParam* param, const Ece& ece) {
  RdmaId* id = nullptr;
  if (const int error = find(channel, handle, id)) return error;
  if (id->state != IdState::kConnecting || id->comm == 0) return EINVAL;
  int error = 0;
  if (param != nullptr) {
    id->qp_num = param->qp_num;
    id->srq = param->srq;
    error = id->is_ud() ? accept_ud(now, *id, *param, ece) : accept_rc(now, *id, *param, ece);
    if (error == 0) id->uid = uid;
  } else if (id->is_ud()) {
    error = accept_ud(now, *id, ConnParam{}, ece);
  } else if (!agent_.send_rtu(now, id->comm)) {
    error = EINVAL;
  }
  // As Linux does: the peer need not wait for what cannot be accepted.
  if (error != 0) (void)reject(now, channel, handle, 0, {});
  drain(now);
  return error;
}

std::optional<Promise> RdmaCm::promise_after(const RdmaEvent& event) const {
  const RdmaId* const id = ids_.get(event.request != 0 ? event.request : event.owner);
  if (id == nullptr || id->is_ud() || !id->device) return std::nullopt;
  const Connection* connection = agent_.connection(id->comm);
  const auto is_in = [&](ConnectionState state) {
    return id->state == IdState::kConnecting && connection != nullptr &&
           connection->state() == state;
  };
  switch (event.type) {
    case RdmaEventType::kRouteResolved:
      if (id->state != IdState::kRouteResolved) return std::nullopt;
      return Promise{Promise::Call::kConnect,
                     static_cast<std::uint8_t>(Req::kPrivateData - user_data_offset(id->source))};
    case RdmaEventType::kConnectRequest:
      if (!is_in(ConnectionState::kReqReceived)) return std::nullopt;
      return Promise{Promise::Call::kAccept, Rep::kPrivateData};
    case RdmaEventType::kConnectResponse:
      if (!is_in(ConnectionState::kRepReceived)) return std::nullopt;
      return Promise{Promise::Call::kConfirm, PrivateData::kMax};
    default:
      return std::nullopt;
  }
}

void RdmaCm::break_promise(ChannelId channel, IdHandle handle, std::uint64_t uid, int error) {
  RdmaId* id = nullptr;
  if (find(channel, handle, id) != 0) return;
  if (id->uid == 0) id->uid = uid;
  if (id->missed) return post(*id, *std::exchange(id->missed, nullptr));
  // Whoever ended it himself waits for nothing.
  if (id->state != IdState::kDisconnected) post(*id, RdmaEventType::kConnectError, -error);
}

int RdmaCm::reject(TimeNs now, ChannelId channel, IdHandle handle, std::uint8_t reason,
                   std::span<const std::uint8_t> private_data) {
  RdmaId* id = nullptr;
  if (const int error = find(channel, handle, id)) return error;
  const auto code = reason == 0 ? RejectReason::kConsumerDefined
                                : static_cast<RejectReason>(std::uint16_t{reason});
  if (code != RejectReason::kConsumerDefined && code != RejectReason::kVendorOptionUnsupported) {
    return EINVAL;
  }
  if (id->comm == 0) return EINVAL;
  bool done = false;
  if (id->is_ud()) {
    SidrRep rep;
    if (private_data.size() > rep.private_data.size()) return EINVAL;
    std::copy(private_data.begin(), private_data.end(), rep.private_data.begin());
    rep.status = SidrStatus::kReject;
    done = agent_.send_sidr_rep(now, id->comm, rep, 0);
  } else {
    if (private_data.size() > Rej::kPrivateData) return EINVAL;
    done = agent_.reject(now, id->comm, code, private_data);
  }
  drain(now);
  return done ? 0 : EINVAL;
}

int RdmaCm::disconnect(TimeNs now, ChannelId channel, IdHandle handle) {
  RdmaId* id = nullptr;
  if (const int error = find(channel, handle, id)) return error;
  if (id->comm == 0) return EINVAL;
  // What is disconnected already stays so, without complaint.
  agent_.disconnect(now, id->comm);
  drain(now);
  return 0;
}

int RdmaCm::notify(TimeNs now, ChannelId channel, IdHandle handle, std::uint32_t ib_event) {
  constexpr std::uint32_t kCommEst = 4;
  constexpr std::uint32_t kPathMig = 6;
  RdmaId* id = nullptr;
  if (const int error = find(channel, handle, id)) return error;
  const Connection* connection = agent_.connection(id->comm);
  if (connection == nullptr) return EINVAL;
  const bool is_established = connection->state() == ConnectionState::kEstablished;
  if (ib_event == kPathMig && is_established) return 0;  // the queue pair has moved by itself
  if (ib_event != kCommEst) return EINVAL;
  if (is_established) return EISCONN;
  const bool done = agent_.mark_established(now, id->comm);
  drain(now);
  return done ? 0 : EINVAL;
}

}  // namespace verbena::cm
