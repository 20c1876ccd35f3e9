// SPDX-License-Identifier: BSD-2-Clause
// What the agent reports becomes what the program sees.
#include <cerrno>

#include "verbena/cm/connection_requests.hpp"
#include "verbena/cm/qp_attributes.hpp"
#include "verbena/cm/rdma_cm.hpp"

namespace verbena::cm {
namespace {

Family family_of(const IpHeader& header) {
  return header.ip_version == 4 ? Family::kInet : Family::kInet6;
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
  handle_neighbours(now);
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
    if (!offer(now, event) && !early_.add(now, event)) refuse(now, event, true);
    return;
  }
  RdmaId* const id = ids_.with_comm(event.id);
  if (id == nullptr) return;
  if (id->is_ud()) return on_sidr_response(*id, event);
  on_connection_event(*id, event);
}

// --- passive side -----------------------------------------------------------------------------

RdmaId* RdmaCm::listener_for(const ServiceRequest& request, const PortInfo& port) {
  const std::optional<ServiceName> name = service_name_of(request.service_id);
  if (!name) return nullptr;
  const std::optional<IpHeader> header = IpHeader::parse(request.private_data);
  IdHandle found = 0;
  if (header) {
    found = port_table_.listener(name->space, name->port, family_of(*header), header->destination);
  }
  // No listener for these as IP addresses: they may be an AF_IB program's own data.
  if (found == 0) {
    found = port_table_.listener(name->space, name->port, Family::kIb, port.gid.as_ip());
  }
  return ids_.get(found);
}

RdmaId* RdmaCm::new_request(const ServiceRequest& request, const PortInfo& port,
                            const IpAddress& peer, RdmaId& listener) {
  const std::optional<IpHeader> header = IpHeader::parse(request.private_data);
  const bool ib = listener.source.family == Family::kIb;
  if (listener.backlog == 0 && catch_up_) catch_up_(listener.channel);
  if (listener.qp_type != request.qp_type || listener.backlog == 0 || (!ib && !header)) {
    return nullptr;
  }
  if (listener.device && *listener.device != port.device) return nullptr;
  if (!shares_.objects.may_take(process_of(listener.channel))) return nullptr;

  RdmaId& id = new_id(listener.channel);
  id.space = listener.space;
  id.qp_type = request.qp_type;
  id.state = IdState::kConnecting;
  id.device = port.device;
  id.peer = peer;
  id.ack_timeout = listener.ack_timeout;
  if (ib) {
    id.source = SocketAddress::of_gid(port.gid, request.service_id, port.pkey);
    id.destination = SocketAddress::of_gid(ports_.remote(port, peer).gid, 0, port.pkey);
  } else {
    id.source = SocketAddress::of(header->destination, service_name_of(request.service_id)->port);
    id.destination = SocketAddress::of(header->source, header->source_port);
    id.source.family = id.destination.family = family_of(*header);
  }
  return &id;
}

bool RdmaCm::offer(TimeNs now, const CmEvent& cause) {
  const Connection* connection = agent_.connection(cause.id);
  const SidrExchange* exchange = agent_.sidr(cause.id);
  if (connection == nullptr && exchange == nullptr) return true;
  const PortInfo* port =
      ports_.find(connection != nullptr ? connection->device() : exchange->device());
  const ServiceRequest request = service_request_of(cause.mad);
  RdmaId* const listener = port == nullptr ? nullptr : listener_for(request, *port);
  if (listener == nullptr) return false;
  RdmaId* const id = new_request(
      request, *port, connection != nullptr ? connection->peer() : exchange->peer(), *listener);
  if (id == nullptr) {
    refuse(now, cause, false);
    return true;
  }
  ids_.connect(*id, cause.id);
  --listener->backlog;
  RdmaEvent event = request_event(cause.mad, user_data_offset(id->source));
  event.request = event.id = id->handle;
  post(*listener, event);
  return true;
}

// --- active side and both ---------------------------------------------------------------------

void RdmaCm::on_sidr_response(RdmaId& id, const CmEvent& cause) {
  std::optional<AhAttr> ah;
  if (const PortInfo* port = ports_.find(*id.device)) ah = ah_of(path_of(id, *port), *port);
  const RdmaEvent event = sidr_response_event(cause, ah);
  if (event.type == RdmaEventType::kEstablished) id.qkey = std::get<UdParam>(event.param).qkey;
  post(id, event);
}

void RdmaCm::on_connection_event(RdmaId& id, const CmEvent& cause) {
  // Who is told that the connection ended hears of the end of timewait, and of nothing else.
  const bool is_last = cause.kind == CmEventKind::kTimewaitExit;
  if (id.state != (is_last ? IdState::kDisconnected : IdState::kConnecting)) return;
  const std::optional<RdmaEvent> event = connection_event(cause);
  if (!event) return;
  if (event->type == RdmaEventType::kDisconnected) id.state = IdState::kDisconnected;
  post(id, *event);
}

void RdmaCm::handle_port_down(DeviceId device) {
  const PortInfo* port = ports_.find(device);
  if (port == nullptr || port->roce) return;
  for (const auto& [number, membership] : memberships_) {
    RdmaId& owner = ids_.at(membership.owner);
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
  for (const auto& [handle, id] : ids_) {
    if (id->device != device) continue;
    release_connection(now, *id);
    id->state = IdState::kDisconnected;
    post(*id, RdmaEventType::kDeviceRemoval);
  }
  drain(now);
}

}  // namespace verbena::cm
