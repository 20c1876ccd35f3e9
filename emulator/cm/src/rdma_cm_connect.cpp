// SPDX-License-Identifier: BSD-2-Clause
// Connections as the program makes them: connect, accept, reject, disconnect.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "verbena/cm/rdma_cm.hpp"

namespace verbena::cm {
namespace {

// IP addresses go in front of the user's data, but for AF_IB.
std::size_t user_data_offset(const SocketAddress& source) {
  return source.family == Family::kIb ? 0 : IpHeader::kSize;
}

template <std::size_t N>
bool put_private_data(std::array<std::uint8_t, N>& out, const SocketAddress& source,
                      const SocketAddress& destination, std::span<const std::uint8_t> data) {
  const std::size_t offset = user_data_offset(source);
  if (offset + data.size() > N) return false;
  if (offset != 0) {
    IpHeader header;
    header.ip_version = source.family == Family::kInet ? 4 : 6;
    header.source_port = source.port;
    header.source = source.ip;
    header.destination = destination.ip;
    header.write_to(out);
  }
  std::copy(data.begin(), data.end(), out.begin() + static_cast<std::ptrdiff_t>(offset));
  return true;
}

std::uint64_t destination_service(PortSpace space, const SocketAddress& destination) {
  return destination.family == Family::kIb ? destination.service_id
                                           : service_id_of(space, destination.port);
}

constexpr std::uint8_t kMaxRetryCount = 7;  // three bits

}  // namespace

std::uint32_t RdmaCm::qkey_of(const Id& id) const {
  if (id.qkey != 0) return id.qkey;
  return id.space == PortSpace::kIpoib ? kIpoibQkey : kUdpQkey;
}

int RdmaCm::connect_rc(TimeNs now, Id& id, const ConnParam& param, const Ece& ece) {
  const PortInfo* port = ports_.find(*id.device);
  if (port == nullptr) return ENODEV;
  Req req;
  if (!put_private_data(req.private_data, id.source, id.destination, param.private_data.view())) {
    return EINVAL;
  }
  const PathRecord path = path_of(id, *port);
  req.ece_vendor_id = ece.vendor_id;
  req.service_id = destination_service(id.space, id.destination);
  req.local_ca_guid = port->node_guid;
  req.local_qpn = param.qp_num;
  req.responder_resources = param.responder_resources;
  req.initiator_depth = param.initiator_depth;
  req.remote_response_timeout = kResponseTimeout;
  req.local_response_timeout = kResponseTimeout;
  req.max_cm_retries = kMaxRetries;
  req.flow_control = param.flow_control != 0;
  req.starting_psn = id.starting_psn;
  req.retry_count = std::min(param.retry_count, kMaxRetryCount);
  req.rnr_retry_count = std::min(param.rnr_retry_count, kMaxRetryCount);
  req.pkey = port->pkey;
  req.path_mtu = path.mtu;
  req.srq = param.srq;
  if (id.qp_type == QpType::kUc) req.service_type = ServiceType::kUc;
  if (id.qp_type == QpType::kXrcSend) {
    req.service_type = ServiceType::kExtended;
    req.extended_type = kExtendedXrc;
  }
  constexpr std::uint16_t kPermissiveLid = 0xffff;  // RoCE has none
  req.primary.local_lid = port->roce ? kPermissiveLid : path.slid;
  req.primary.remote_lid = port->roce ? kPermissiveLid : path.dlid;
  req.primary.local_gid = path.sgid;
  req.primary.remote_gid = path.dgid;
  req.primary.flow_label = path.flow_label;
  req.primary.packet_rate = path.rate;
  req.primary.traffic_class = path.traffic_class;
  req.primary.hop_limit = path.hop_limit;
  req.primary.subnet_local = port->roce ? 0 : 1;
  req.primary.local_ack_timeout =
      id.ack_timeout.value_or(static_cast<std::uint8_t>(path.packet_life_time + 1));
  id.comm = agent_.new_connection(*id.device);
  by_comm_[id.comm] = id.handle;
  agent_.send_req(now, id.comm, id.peer, req, ece.option);
  return 0;
}

int RdmaCm::connect_ud(TimeNs now, Id& id, const ConnParam& param) {
  const PortInfo* port = ports_.find(*id.device);
  if (port == nullptr) return ENODEV;
  SidrReq req;
  if (!put_private_data(req.private_data, id.source, id.destination, param.private_data.view())) {
    return EINVAL;
  }
  req.pkey = port->pkey;
  req.service_id = destination_service(id.space, id.destination);
  id.comm = agent_.new_sidr(*id.device);
  by_comm_[id.comm] = id.handle;
  agent_.send_sidr_req(now, id.comm, id.peer, req);
  return 0;
}

int RdmaCm::connect(TimeNs now, ChannelId channel, IdHandle handle, const ConnParam& param,
                    const Ece& ece) {
  Id* id = nullptr;
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

int RdmaCm::accept_rc(TimeNs now, Id& id, const ConnParam& param, const Ece& ece) {
  const PortInfo* port = ports_.find(*id.device);
  const Connection* connection = agent_.connection(id.comm);
  if (port == nullptr || connection == nullptr) return EINVAL;
  Rep rep;
  const std::span<const std::uint8_t> data = param.private_data.view();
  if (data.size() > rep.private_data.size()) return EINVAL;
  std::copy(data.begin(), data.end(), rep.private_data.begin());
  rep.local_qpn = param.qp_num;
  rep.starting_psn = id.starting_psn;
  rep.responder_resources = param.responder_resources;
  rep.initiator_depth = param.initiator_depth;
  rep.flow_control = param.flow_control != 0;
  rep.rnr_retry_count = std::min(param.rnr_retry_count, kMaxRetryCount);
  rep.srq = param.srq;
  rep.local_ca_guid = port->node_guid;
  rep.set_ece_vendor_id(ece.vendor_id);
  return agent_.send_rep(now, id.comm, rep, ece.option) ? 0 : EINVAL;
}

int RdmaCm::accept_ud(TimeNs now, Id& id, const ConnParam& param, const Ece& ece) {
  SidrRep rep;
  const std::span<const std::uint8_t> data = param.private_data.view();
  if (data.size() > rep.private_data.size()) return EINVAL;
  std::copy(data.begin(), data.end(), rep.private_data.begin());
  if (param.qkey != 0) id.qkey = param.qkey;
  rep.qpn = param.qp_num;
  rep.qkey = qkey_of(id);
  rep.ece_vendor_high = static_cast<std::uint16_t>(ece.vendor_id >> 8);
  rep.ece_vendor_low = static_cast<std::uint8_t>(ece.vendor_id);
  return agent_.send_sidr_rep(now, id.comm, rep, ece.option) ? 0 : EINVAL;
}

int RdmaCm::accept(TimeNs now, ChannelId channel, IdHandle handle, std::uint64_t uid,
                   const ConnParam* param, const Ece& ece) {
  Id* id = nullptr;
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
  const auto it = ids_.find(event.request != 0 ? event.request : event.owner);
  if (it == ids_.end() || it->second->is_ud() || !it->second->device) return std::nullopt;
  const Id& id = *it->second;
  const Connection* connection = agent_.connection(id.comm);
  const auto is_in = [&](ConnectionState state) {
    return id.state == IdState::kConnecting && connection != nullptr &&
           connection->state() == state;
  };
  switch (event.type) {
    case RdmaEventType::kRouteResolved:
      if (id.state != IdState::kRouteResolved) return std::nullopt;
      return Promise{Promise::Call::kConnect,
                     static_cast<std::uint8_t>(Req::kPrivateData - user_data_offset(id.source))};
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
  Id* id = nullptr;
  if (find(channel, handle, id) != 0) return;
  if (id->uid == 0) id->uid = uid;
  if (id->missed) return post(*id, *std::exchange(id->missed, nullptr));
  // Whoever ended it himself waits for nothing.
  if (id->state != IdState::kDisconnected) post(*id, RdmaEventType::kConnectError, -error);
}

int RdmaCm::reject(TimeNs now, ChannelId channel, IdHandle handle, std::uint8_t reason,
                   std::span<const std::uint8_t> private_data) {
  Id* id = nullptr;
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
  Id* id = nullptr;
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
  Id* id = nullptr;
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
