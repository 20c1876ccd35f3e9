// SPDX-License-Identifier: BSD-2-Clause
// What the agent reports becomes what the program sees.
#include <cerrno>

#include "verbena/cm/rdma_cm.hpp"

namespace verbena::cm {
namespace {

constexpr std::int32_t kTimedOut = -ETIMEDOUT;

QpType qp_type_of(const Req& req) {
  switch (req.service_type) {
    case ServiceType::kUc:
      return QpType::kUc;
    case ServiceType::kExtended:
      return QpType::kXrcRecv;
    default:
      return QpType::kRc;
  }
}

// Depth and resources change their meaning with the point of view.
ConnParam param_of(const Req& req, std::span<const std::uint8_t> user_data) {
  ConnParam p;
  p.qp_num = req.local_qpn;
  p.private_data.assign(user_data);
  p.srq = req.srq != 0;
  p.responder_resources = req.initiator_depth;
  p.initiator_depth = req.responder_resources;
  p.flow_control = req.flow_control;
  p.retry_count = req.retry_count;
  p.rnr_retry_count = req.rnr_retry_count;
  return p;
}

ConnParam param_of(const Rep& rep) {
  ConnParam p;
  p.qp_num = rep.local_qpn;
  p.private_data.assign(rep.private_data);
  p.srq = rep.srq != 0;
  p.responder_resources = rep.initiator_depth;
  p.initiator_depth = rep.responder_resources;
  p.flow_control = rep.flow_control;
  p.rnr_retry_count = rep.rnr_retry_count;
  return p;
}

}  // namespace

void RdmaCm::handle_mad(TimeNs now, DeviceId device, const IpAddress& source,
                        std::span<const std::uint8_t> bytes) {
  agent_.handle_mad(now, device, source, bytes);
  drain(now);
}

void RdmaCm::handle_timeout(TimeNs now) {
  agent_.handle_timeout(now);
  drain(now);
  handle_early_requests(now);
  handle_asked_neighbours(now);
}

// Events may make the agent produce more of both; until it is quiet.
void RdmaCm::drain(TimeNs now) {
  CmOutputs out = std::exchange(spare_, {});  // who drains meanwhile has none, and does without
  for (;;) {
    out = agent_.take_outputs(std::move(out));
    if (out.mads.empty() && out.events.empty()) break;
    mads_.insert(mads_.end(), out.mads.begin(), out.mads.end());
    for (const CmEvent& event : out.events) on_event(now, event);
  }
  spare_ = std::move(out);
}

void RdmaCm::on_event(TimeNs now, const CmEvent& event) {
  if (event.kind == CmEventKind::kReqReceived || event.kind == CmEventKind::kSidrReqReceived) {
    if (!offer(now, event)) wait_for_listener(now, event);
    return;
  }
  const auto it = by_comm_.find(event.id);
  if (it == by_comm_.end()) return;
  Id& id = *ids_.at(it->second);
  if (id.is_ud()) return on_sidr_response(id, event);
  on_connection_event(id, event);
}

// --- passive side -----------------------------------------------------------------------------

RdmaCm::Id* RdmaCm::accept_request(std::uint64_t service_id,
                                   std::span<const std::uint8_t> private_data, DeviceId device,
                                   const IpAddress& peer, QpType qp_type, Id*& listener) {
  const std::optional<ServiceName> name = service_name_of(service_id);
  const PortInfo* port = ports_.find(device);
  if (!name || port == nullptr) return nullptr;
  const std::optional<IpHeader> header = IpHeader::parse(private_data);
  Family family = Family::kIb;
  if (header) family = header->ip_version == 4 ? Family::kInet : Family::kInet6;
  IdHandle found = port_table_.listener(name->space, name->port, family,
                                        header ? header->destination : port->gid.as_ip());
  bool ib = found == 0 || !header;
  if (ib) {
    // No listener for these as IP addresses: they may be an AF_IB program's own data.
    found = port_table_.listener(name->space, name->port, Family::kIb, port->gid.as_ip());
  }
  if (found == 0) return nullptr;
  listener = ids_.at(found).get();
  ib = listener->source.family == Family::kIb;
  if (listener->backlog == 0 && catch_up_) catch_up_(listener->channel);
  if (listener->qp_type != qp_type || listener->backlog == 0 || (!ib && !header)) return nullptr;
  if (listener->device && *listener->device != device) return nullptr;
  if (!object_share_.may_take(process_of(listener->channel))) return nullptr;

  Id& id = new_id(listener->channel);
  id.space = listener->space;
  id.qp_type = qp_type;
  id.state = IdState::kConnecting;
  id.device = device;
  id.peer = peer;
  id.ack_timeout = listener->ack_timeout;
  if (ib) {
    id.source = SocketAddress::of_gid(port->gid, service_id, port->pkey);
    id.destination = SocketAddress::of_gid(ports_.remote(*port, peer).gid, 0, port->pkey);
  } else {
    id.source.family = id.destination.family = family;
    id.source.ip = header->destination;
    id.source.port = name->port;
    id.destination.ip = header->source;
    id.destination.port = header->source_port;
  }
  return &id;
}

bool RdmaCm::on_request(TimeNs now, const CmEvent& cause) {
  const Req& req = std::get<Req>(cause.mad.message);
  const Connection* connection = agent_.connection(cause.id);
  if (connection == nullptr) return true;
  Id* listener = nullptr;
  Id* id = accept_request(req.service_id, req.private_data, connection->device(),
                          connection->peer(), qp_type_of(req), listener);
  if (id == nullptr) {
    if (listener != nullptr) refuse(now, cause, false);
    return listener != nullptr;
  }
  id->comm = cause.id;
  by_comm_[id->comm] = id->handle;
  --listener->backlog;
  const bool ib = id->source.family == Family::kIb;
  RdmaEvent event;
  event.type = RdmaEventType::kConnectRequest;
  event.param = param_of(req, std::span(req.private_data).subspan(ib ? 0 : IpHeader::kSize));
  event.ece = {req.ece_vendor_id, cause.mad.attribute_modifier};
  event.request = event.id = id->handle;
  post(*listener, event);
  return true;
}

bool RdmaCm::on_sidr_request(TimeNs now, const CmEvent& cause) {
  const SidrReq& req = std::get<SidrReq>(cause.mad.message);
  const SidrExchange* exchange = agent_.sidr(cause.id);
  if (exchange == nullptr) return true;
  Id* listener = nullptr;
  Id* id = accept_request(req.service_id, req.private_data, exchange->device(), exchange->peer(),
                          QpType::kUd, listener);
  if (id == nullptr) {
    if (listener != nullptr) refuse(now, cause, false);
    return listener != nullptr;
  }
  id->comm = cause.id;
  by_comm_[id->comm] = id->handle;
  --listener->backlog;
  const bool ib = id->source.family == Family::kIb;
  UdParam param;
  param.private_data.assign(std::span(req.private_data).subspan(ib ? 0 : IpHeader::kSize));
  RdmaEvent event;
  event.type = RdmaEventType::kConnectRequest;
  event.param = param;
  event.ece.option = cause.mad.attribute_modifier;
  event.request = event.id = id->handle;
  post(*listener, event);
  return true;
}

// --- active side and both ---------------------------------------------------------------------

void RdmaCm::on_sidr_response(Id& id, const CmEvent& cause) {
  RdmaEvent event;
  event.type = RdmaEventType::kUnreachable;
  event.param = UdParam{};
  event.status = kTimedOut;
  if (const auto* rep = std::get_if<SidrRep>(&cause.mad.message);
      rep != nullptr && cause.kind == CmEventKind::kSidrRepReceived) {
    const PortInfo* port = ports_.find(*id.device);
    UdParam param;
    param.private_data.assign(rep->private_data);
    event.status = static_cast<std::int32_t>(rep->status);
    event.ece = {std::uint32_t{rep->ece_vendor_high} << 8 | rep->ece_vendor_low,
                 cause.mad.attribute_modifier};
    if (rep->status == SidrStatus::kSuccess && port != nullptr) {
      event.type = RdmaEventType::kEstablished;
      param.qp_num = rep->qpn;
      param.qkey = rep->qkey;
      param.ah = ah_of(id, *port);
      id.qkey = rep->qkey;
    }
    event.param = param;
  }
  post(id, event);
}

void RdmaCm::on_connection_event(Id& id, const CmEvent& cause) {
  // Who is told that the connection ended hears of the end of timewait, and of nothing else.
  const bool is_last = cause.kind == CmEventKind::kTimewaitExit;
  if (id.state != (is_last ? IdState::kDisconnected : IdState::kConnecting)) return;
  RdmaEvent event;
  switch (cause.kind) {
    case CmEventKind::kRepReceived: {
      const Rep& rep = std::get<Rep>(cause.mad.message);
      event.type = RdmaEventType::kConnectResponse;
      event.param = param_of(rep);
      event.ece = {rep.ece_vendor_id(), cause.mad.attribute_modifier};
      break;
    }
    case CmEventKind::kEstablished:
      event.type = RdmaEventType::kEstablished;
      break;
    case CmEventKind::kRejReceived: {
      const Rej& rej = std::get<Rej>(cause.mad.message);
      ConnParam param;
      param.private_data.assign(rej.private_data);
      event.type = RdmaEventType::kRejected;
      event.status = static_cast<std::int32_t>(rej.reason);
      event.param = param;
      break;
    }
    case CmEventKind::kReqTimeout:
    case CmEventKind::kRepTimeout:
      event.type = RdmaEventType::kUnreachable;
      event.status = kTimedOut;
      break;
    case CmEventKind::kDreqReceived:
    case CmEventKind::kDrepReceived:
    case CmEventKind::kDreqTimeout:
      id.state = IdState::kDisconnected;
      event.type = RdmaEventType::kDisconnected;
      if (cause.kind == CmEventKind::kDreqTimeout) event.status = kTimedOut;
      break;
    case CmEventKind::kTimewaitExit:
      event.type = RdmaEventType::kTimewaitExit;
      break;
    default:
      return;
  }
  post(id, event);
}

void RdmaCm::handle_port_down(DeviceId device) {
  const PortInfo* port = ports_.find(device);
  if (port == nullptr || port->roce) return;
  for (const auto& [number, membership] : memberships_) {
    const Id& owner = *ids_.at(membership.owner);
    if (owner.device != device) continue;
    RdmaEvent event;
    event.type = RdmaEventType::kMulticastError;
    event.status = -ENETRESET;
    event.param = UdParam{};
    event.membership = event.id = number;
    event.uid = membership.uid;
    post(owner, event);
  }
}

void RdmaCm::handle_address_change(DeviceId device) {
  for (const auto& [handle, id] : ids_) {
    if (id->device == device) post(*id, RdmaEventType::kAddrChange);
  }
}

void RdmaCm::remove_device(TimeNs now, DeviceId device) {
  for (auto& [handle, id] : ids_) {
    if (id->device != device) continue;
    if (id->comm != 0) {
      by_comm_.erase(id->comm);
      agent_.release(now, id->comm);
      id->comm = 0;
    }
    id->state = IdState::kDisconnected;
    post(*id, RdmaEventType::kDeviceRemoval);
  }
  drain(now);
}

}  // namespace verbena::cm
