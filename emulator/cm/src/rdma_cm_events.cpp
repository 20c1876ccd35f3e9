// SPDX-License-Identifier: BSD-2-Clause
// Handles what the network, the clock and devices bring, and tells programs of it.
#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>
#include <variant>

#include "verbena/cm/connection_requests.hpp"
#include "verbena/cm/qp_attributes.hpp"
#include "verbena/cm/rdma_cm.hpp"

namespace verbena::cm {
namespace {

Family family_of(const IpHeader& header) {
  return header.ip_version == 4 ? Family::kInet : Family::kInet6;
}

}  // namespace

// --- events that programs read ----------------------------------------------------------------

void RdmaCm::post(RdmaId& id, RdmaEvent event) {
  // A request that is not accepted yet has no uid by which the program would know it.
  if (id.uid == 0) {
    const bool ends = event.type != RdmaEventType::kAddrChange;
    // Events that bring an ID or belong to a membership are for IDs that programs made, with or
    // without a uid.
    const bool is_own = event.request == 0 && event.membership == 0;
    if (ends && is_own && !id.missed) id.missed = std::make_unique<RdmaEvent>(event);
    return channels_.wake(id.channel, id.handle);
  }
  event.owner = id.handle;
  if (event.membership == 0) {
    event.uid = id.uid;
    if (event.request == 0) event.id = id.handle;
  }
  channels_.push(id.channel, event);
}

void RdmaCm::post(RdmaId& id, RdmaEventType type, std::int32_t status) {
  RdmaEvent event;
  event.type = type;
  event.status = status;
  if (id.is_ud()) event.param = UdParam{};
  post(id, event);
}

std::optional<RdmaEvent> RdmaCm::get_event(ChannelId channel) {
  const std::optional<RdmaEvent> event = channels_.pop(channel);
  if (!event) return std::nullopt;
  RdmaId& owner = ids_.at(event->owner);
  ++owner.events_reported;
  if (event->membership != 0) ++memberships_.find(event->membership)->events_reported;
  if (event->type == RdmaEventType::kConnectRequest) ++owner.backlog;
  return event;
}

int RdmaCm::write_event(ChannelId channel, IdHandle handle, std::uint32_t type, std::int32_t status,
                        std::uint64_t argument) {
  RdmaId* id = nullptr;
  RdmaEvent event;
  event.type = static_cast<RdmaEventType>(type);
  if (event.type != RdmaEventType::kUser && event.type != RdmaEventType::kInternal) return EINVAL;
  if (const int error = find(channel, handle, id)) return error;
  if (!may_add_object(channel)) return ENOMEM;
  event.status = status;
  event.argument = argument;
  post(*id, event);
  return 0;
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
  if (!shares_.objects.may_take(process_of(channel))) return;
  if (id->uid == 0) id->uid = uid;
  if (id->missed) return post(*id, *std::exchange(id->missed, nullptr));
  // A program that has ended the connection itself, or was told of its end, waits for nothing.
  if (id->state == IdState::kDisconnected || id->has_failed) return;
  post(*id, RdmaEventType::kConnectError, -error);
}

// --- IDs come and go --------------------------------------------------------------------------

RdmaId& RdmaCm::new_id(ChannelId channel) {
  shares_.objects.take(process_of(channel));
  RdmaId& id = ids_.add(channel);
  // The PSN is chosen now, because a program asks for its queue pair's attributes before it
  // connects or accepts.
  id.starting_psn = static_cast<std::uint32_t>(random_.next()) & kMask24;
  return id;
}

void RdmaCm::destroy(TimeNs now, RdmaId& id, std::uint32_t& withdrawn) {
  const IdHandle handle = id.handle;
  release_port(id);
  neighbours_.forget(handle);
  withdrawn += withdraw(now, id.channel, handle, 0);
  release_connection(now, id);
  shares_.objects.give_back(process_of(id.channel), 1 + id.memberships.size());
  memberships_.remove_all(id);
  ids_.erase(handle);
}

// Takes back unread events, and destroys the requests that an unread CONNECT_REQUEST brought.
std::uint32_t RdmaCm::withdraw(TimeNs now, ChannelId channel, IdHandle owner,
                               std::uint32_t membership) {
  const EventChannels::Gone gone = channels_.take_back(channel, owner, membership);
  for (const IdHandle handle : gone.requests) {
    std::uint32_t none = 0;
    if (RdmaId* const request = unread_request(channel, handle)) destroy(now, *request, none);
  }
  return gone.events;
}

RdmaId* RdmaCm::unread_request(ChannelId channel, IdHandle handle) {
  RdmaId* id = nullptr;
  return find(channel, handle, id) == 0 && id->uid == 0 ? id : nullptr;
}

void RdmaCm::release_port(RdmaId& id) {
  if (!id.holds_port) return;
  port_table_.release(id.space, id.source.port, id.handle);
  shares_.ports.give_back(process_of(id.channel));
  id.holds_port = false;
}

void RdmaCm::release_connection(TimeNs now, RdmaId& id) {
  if (id.comm == 0) return;
  agent_.release(now, id.comm);
  ids_.disconnect(id);
}

// --- the network and the clock ----------------------------------------------------------------

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

TimeNs RdmaCm::next_deadline() const {
  return std::min({early_.next_deadline(), neighbours_.next_deadline(), agent_.next_deadline()});
}

// Goes on until the agent is quiet, because events may make it produce more datagrams and events.
void RdmaCm::drain(TimeNs now) {
  CmOutputs out = std::exchange(spare_, {});  // a nested drain() finds no memory here
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

void RdmaCm::on_sidr_response(RdmaId& id, const CmEvent& cause) {
  std::optional<AhAttr> ah;
  if (const PortInfo* port = ports_.find(*id.device)) ah = ah_of(path_of(id, *port), *port);
  const RdmaEvent event = sidr_response_event(cause, ah);
  id.is_accepted = event.type == RdmaEventType::kEstablished;
  if (id.is_accepted) id.qkey = std::get<UdParam>(event.param).qkey;
  post(id, event);
}

void RdmaCm::on_connection_event(RdmaId& id, const CmEvent& cause) {
  // A program that was told of the end hears of the end of timewait and of nothing else.
  const bool is_last = cause.kind == CmEventKind::kTimewaitExit;
  if (id.state != (is_last ? IdState::kDisconnected : IdState::kConnecting)) return;
  const std::optional<RdmaEvent> event = connection_event(cause);
  if (!event) return;
  if (event->type == RdmaEventType::kDisconnected) id.state = IdState::kDisconnected;
  id.has_failed = id.has_failed || event->type == RdmaEventType::kRejected ||
                  event->type == RdmaEventType::kUnreachable ||
                  event->type == RdmaEventType::kConnectError;
  post(id, *event);
}

// --- requests of peers ------------------------------------------------------------------------

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

RdmaId* RdmaCm::listener_for(const ServiceRequest& request, const PortInfo& port) {
  const std::optional<ServiceName> name = service_name_of(request.service_id);
  if (!name) return nullptr;
  const std::optional<IpHeader> header = IpHeader::parse(request.private_data);
  IdHandle found = 0;
  if (header) {
    found = port_table_.listener(name->space, name->port, family_of(*header), header->destination);
  }
  // No listener has these bytes as IP addresses: they may be an AF_IB program's own data.
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

// --- neighbours and devices -------------------------------------------------------------------

void RdmaCm::handle_neighbours(TimeNs now) {
  for (const NeighbourQuestions::Ended& ended : neighbours_.look(now)) {
    RdmaId& id = ids_.at(ended.id);
    if (ended.error == 0) {
      take_route(id, ended.route);
    } else {
      id.state = IdState::kBound;
      post(id, RdmaEventType::kAddrError, -ended.error);
    }
  }
}

void RdmaCm::take_route(RdmaId& id, const ResolvedRoute& route) {
  const bool is_any = id.destination.is_any();
  id.device = route.port->device;
  id.peer = route.peer;
  if (id.source.is_any()) {
    const bool is_ib = id.destination.family == Family::kIb;
    id.source.ip = is_ib ? route.port->gid.as_ip() : route.source;
  }
  if (is_any) id.destination.ip = route.source;
  id.state = IdState::kAddressResolved;
  post(id, RdmaEventType::kAddrResolved);
}

void RdmaCm::handle_port_down(DeviceId device) {
  neighbours_.look_soon();
  const PortInfo* port = ports_.find(device);
  if (port == nullptr || port->roce) return;
  for (auto& [number, membership] : memberships_) {
    RdmaId& owner = ids_.at(membership.owner);
    if (owner.device != device || membership.has_ended || !may_have_news(owner)) continue;
    membership.has_ended = true;
    RdmaEvent event = membership_event(RdmaEventType::kMulticastError, number, membership.uid);
    event.status = -ENETRESET;
    post(owner, event);
  }
}

void RdmaCm::handle_address_change(DeviceId device) {
  for (const auto& [handle, id] : ids_) {
    if (id->device == device && may_have_news(*id)) post(*id, RdmaEventType::kAddrChange);
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
