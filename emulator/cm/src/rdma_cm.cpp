// SPDX-License-Identifier: BSD-2-Clause
// The calls that programs make.
#include "verbena/cm/rdma_cm.hpp"

#include <algorithm>
#include <cerrno>

#include "verbena/cm/connection_requests.hpp"
#include "verbena/cm/id_options.hpp"
#include "verbena/cm/multicast.hpp"
#include "verbena/cm/qp_attributes.hpp"

namespace verbena::cm {

RdmaCm::RdmaCm(const Ports& ports, std::uint64_t seed)
    : ports_(ports), random_(seed), agent_(random_.next()), port_table_(random_.next()) {}

// --- the life of an ID ------------------------------------------------------------------------

int RdmaCm::create_id(ChannelId channel, std::uint64_t uid, std::uint16_t port_space,
                      std::uint8_t qp_type, IdHandle& handle) {
  if (!channels_.contains(channel)) return EINVAL;
  if (!may_add_object(channel)) return ENOMEM;
  const std::optional<QpType> type = qp_type_in(port_space, qp_type);
  if (!type) return EINVAL;
  RdmaId& id = new_id(channel);
  id.uid = uid;
  id.space = static_cast<PortSpace>(port_space);
  id.qp_type = *type;
  handle = id.handle;
  return 0;
}

int RdmaCm::destroy_id(TimeNs now, ChannelId channel, IdHandle handle,
                       std::uint32_t& events_reported, std::uint32_t& withdrawn) {
  RdmaId* id = nullptr;
  if (const int error = find(channel, handle, id)) return error;
  events_reported = id->events_reported;
  withdrawn = 0;
  destroy(now, *id, withdrawn);
  drain(now);
  return 0;
}

void RdmaCm::close_channel(TimeNs now, ChannelId channel) {
  if (!channels_.contains(channel)) return;
  std::vector<IdHandle> own;
  for (const auto& [handle, id] : ids_) {
    if (id->channel == channel) own.push_back(handle);
  }
  std::uint32_t withdrawn = 0;
  for (const IdHandle handle : own) {
    if (RdmaId* const id = ids_.get(handle)) destroy(now, *id, withdrawn);
  }
  channels_.close(channel);
  drain(now);
}

int RdmaCm::migrate(ChannelId to, ChannelId from, IdHandle handle, std::uint32_t& events_reported,
                    std::uint32_t& withdrawn) {
  RdmaId* id = nullptr;
  if (const int error = find(from, handle, id)) return error;
  if (!channels_.contains(to)) return EINVAL;
  events_reported = id->events_reported;
  withdrawn = 0;
  id->channel = to;
  if (to == from) return 0;
  const limits::Holder giver = process_of(from);
  const limits::Holder taker = process_of(to);
  move_shares(*id, giver, taker);
  const EventChannels::Gone moved = channels_.move(from, to, handle);
  withdrawn = moved.events;
  // Requests that the moved events bring belong to the new channel as well.
  for (const IdHandle number : moved.requests) {
    RdmaId* const request = unread_request(from, number);
    if (request == nullptr) continue;
    request->channel = to;
    move_shares(*request, giver, taker);
  }
  return 0;
}

void RdmaCm::move_shares(const RdmaId& id, limits::Holder from, limits::Holder to) {
  shares_.objects.give_back(from, 1 + id.memberships.size());
  shares_.objects.take(to, 1 + id.memberships.size());
  if (!id.holds_port) return;
  shares_.ports.give_back(from);
  shares_.ports.take(to);
}

// --- addresses, listeners, options -------------------------------------------------------------

int RdmaCm::bind(ChannelId channel, IdHandle handle, const SocketAddress& address) {
  RdmaId* id = nullptr;
  if (const int error = find(channel, handle, id)) return error;
  if (!address.is_set()) return EAFNOSUPPORT;
  return bind_id(*id, address);
}

int RdmaCm::bind_id(RdmaId& id, const SocketAddress& address) {
  if (id.state != IdState::kIdle) return EINVAL;
  PortSpace space = id.space;
  if (address.family == Family::kIb) {
    const std::optional<PortSpace> named = space_named_by(address, id.space);
    if (!named) return EPROTONOSUPPORT;
    space = *named;
  }
  std::optional<DeviceId> device;
  if (!address.is_any()) {
    const Result<const PortInfo*, int> port = resolve_local(ports_, address);
    if (!port) return port.error();
    device = (*port)->device;
  }
  if (!id.family_only_set) id.family_only = address.family == Family::kInet;
  const limits::Holder process = process_of(id.channel);
  if (!shares_.may_add_port(process)) return EADDRNOTAVAIL;
  PortTable::Binding binding{id.handle, address, id.reuse_address, id.family_only, false};
  if (const int error = port_table_.bind(space, binding)) return error;
  shares_.ports.take(process);
  id.space = space;
  id.source = binding.address;
  if (address.family == Family::kIb) {
    id.source.service_id = service_id_of(space, binding.address.port);
    id.source.service_mask = ~std::uint64_t{0};
  }
  id.device = device;
  id.holds_port = true;
  id.state = IdState::kBound;
  return 0;
}

int RdmaCm::resolve_addr(ChannelId channel, IdHandle handle, const SocketAddress& source,
                         const SocketAddress& destination, TimeNs until) {
  RdmaId* id = nullptr;
  if (const int error = find(channel, handle, id)) return error;
  if (!destination.is_set()) return EINVAL;
  if (source.is_set() && source.family != destination.family) return EINVAL;
  if (id->state == IdState::kIdle) {
    SocketAddress from = source;
    if (!from.is_set()) {
      from.family = destination.family;
      if (from.family == Family::kInet) from.ip = IpAddress::v4(0);
      from.pkey = destination.pkey;
    }
    if (const int error = bind_id(*id, from)) return error;
  }
  if (id->state != IdState::kBound || id->source.family != destination.family) return EINVAL;
  const Result<ResolvedRoute, int> route = resolve(ports_, id->source, destination);
  id->destination = destination;
  if (!route) {
    if (route.error() != ENODEV) return route.error();
    if (!may_add_object(channel)) return ENOMEM;
    post(*id, RdmaEventType::kAddrError, -ENODEV);
    return 0;
  }
  if (route->is_local || ports_.has_answered(route->peer)) {
    take_route(*id, *route);
  } else {
    id->state = IdState::kAddressQuery;
    neighbours_.ask(handle, *route, until);
  }
  return 0;
}

int RdmaCm::resolve_route(ChannelId channel, IdHandle handle) {
  RdmaId* id = nullptr;
  if (const int error = find(channel, handle, id)) return error;
  if (id->state != IdState::kAddressResolved) return EINVAL;
  const PortInfo* port = ports_.find(*id->device);
  if (!may_add_object(channel)) return ENOMEM;
  if (port == nullptr) {
    post(*id, RdmaEventType::kRouteError, -ENODEV);
    return 0;
  }
  // A port that is down cannot reach a subnet administrator. RoCE needs none.
  if (!port->roce && !ports_.is_active(port->device)) {
    post(*id, RdmaEventType::kRouteError, -ETIMEDOUT);
    return 0;
  }
  id->state = IdState::kRouteResolved;
  post(*id, RdmaEventType::kRouteResolved);
  return 0;
}

int RdmaCm::resolve_service(ChannelId channel, IdHandle handle, std::uint32_t flags) {
  constexpr std::uint32_t kByIdOrName = 3;
  RdmaId* id = nullptr;
  if (const int error = find(channel, handle, id)) return error;
  if (id->state != IdState::kAddressResolved) return EINVAL;
  const PortInfo* port = ports_.find(*id->device);
  if (port == nullptr || port->roce) return EOPNOTSUPP;
  if (flags == 0 || (flags & ~kByIdOrName) != 0) return EINVAL;
  if (!may_add_object(channel)) return ENOMEM;
  post(*id, RdmaEventType::kServiceError, -ENODATA);
  return 0;
}

int RdmaCm::listen(TimeNs now, ChannelId channel, IdHandle handle, std::int32_t backlog) {
  RdmaId* id = nullptr;
  if (const int error = find(channel, handle, id)) return error;
  if (id->state == IdState::kIdle) {
    SocketAddress any;
    any.family = Family::kInet;
    any.ip = IpAddress::v4(0);
    if (const int error = bind_id(*id, any)) return error;
  }
  if (id->state != IdState::kBound) return EINVAL;
  if (const int error = port_table_.listen(id->space, id->source.port, id->handle)) return error;
  const bool usable = backlog > 0 && static_cast<std::uint32_t>(backlog) < kMaxBacklog;
  id->backlog = usable ? static_cast<std::uint32_t>(backlog) : kMaxBacklog;
  id->state = IdState::kListening;
  if (id->source.is_any()) ports_.listen_everywhere();
  early_.on_listen(now);
  return 0;
}

int RdmaCm::set_option(ChannelId channel, IdHandle handle, std::uint32_t level, std::uint32_t name,
                       std::span<const std::uint8_t> value) {
  enum : std::uint32_t { kLevelId = 0, kLevelIb = 1, kIbPath = 1 };
  RdmaId* id = nullptr;
  if (const int error = find(channel, handle, id)) return error;
  if (level == kLevelIb && name == kIbPath) return set_path(*id, value);
  if (level != kLevelId) return ENOSYS;
  if (const int error = set_id_option(*id, name, value)) return error;
  if (id->holds_port) {
    port_table_.set_options(id->space, id->source.port, handle, id->reuse_address, id->family_only);
  }
  return 0;
}

// Takes path records of the caller's making (ibacm) as "the route is known". The path itself is
// arithmetic here, so records that are right cannot differ from it.
int RdmaCm::set_path(RdmaId& id, std::span<const std::uint8_t> records) {
  if (!has_usable_path(records) || id.state != IdState::kAddressResolved) return EINVAL;
  id.state = IdState::kRouteResolved;
  post(id, RdmaEventType::kRouteResolved);
  return 0;
}

// --- connections ------------------------------------------------------------------------------

int RdmaCm::connect(TimeNs now, ChannelId channel, IdHandle handle, const ConnParam& param,
                    const Ece& ece) {
  RdmaId* id = nullptr;
  if (const int error = find(channel, handle, id)) return error;
  if (id->state != IdState::kRouteResolved) return EINVAL;
  const int error = id->is_ud() ? connect_ud(now, *id, param) : connect_rc(now, *id, param, ece);
  if (error != 0) return error;
  id->take_queue_pair(param.qp_num, param.srq);
  id->state = IdState::kConnecting;
  drain(now);
  return 0;
}

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

int RdmaCm::accept(TimeNs now, ChannelId channel, IdHandle handle, std::uint64_t uid,
                   const ConnParam* param, const Ece& ece) {
  RdmaId* id = nullptr;
  if (const int error = find(channel, handle, id)) return error;
  if (id->state != IdState::kConnecting || id->comm == 0) return EINVAL;
  int error = 0;
  if (param != nullptr) {
    error = id->is_ud() ? accept_ud(now, *id, *param, ece) : accept_rc(now, *id, *param, ece);
    if (error == 0) id->take_queue_pair(param->qp_num, param->srq);
    // Waiting events carry the ID's uid, so an acceptance without a uid leaves it.
    if (error == 0 && uid != 0) id->uid = uid;
  } else if (id->is_ud()) {
    error = accept_ud(now, *id, ConnParam{}, ece);
  } else if (!agent_.send_rtu(now, id->comm)) {
    error = EINVAL;
  }
  // As Linux does, tells the peer, which need not wait for what cannot be accepted.
  if (error != 0) (void)reject(now, channel, handle, 0, {});
  drain(now);
  return error;
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
  if (!agent_.send_sidr_rep(now, id.comm, *rep, ece.option)) return EINVAL;
  if (param.qkey != 0) id.qkey = param.qkey;
  id.is_accepted = true;
  return 0;
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
  // A connection that has ended already stays so, and that is no error.
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

// --- multicast --------------------------------------------------------------------------------

int RdmaCm::join(ChannelId channel, IdHandle handle, std::uint64_t uid,
                 const SocketAddress& address, std::uint16_t join_flags,
                 std::uint32_t& membership) {
  constexpr std::uint16_t kSendOnly = 1;
  RdmaId* id = nullptr;
  if (const int error = find(channel, handle, id)) return error;
  if (join_flags > kSendOnly || !address.is_set() || !id->is_ud()) return EINVAL;
  if (id->state != IdState::kBound && id->state != IdState::kAddressResolved) return EINVAL;
  const PortInfo* port = id->device ? ports_.find(*id->device) : nullptr;
  if (port == nullptr) return EINVAL;
  if (address.is_any() && port->roce) return EINVAL;  // RoCE has no administrator to assign groups
  if (!may_add_object(channel)) return ENOMEM;

  membership = memberships_.add(*id, uid);
  shares_.objects.take(process_of(channel));

  UdParam param;
  param.qp_num = kMulticastQpn.value();
  param.qkey = id->qkey_in_use();
  const Gid mgid =
      address.is_any() ? assigned_mgid(random_.next()) : mgid_of(address, id->space, port->roce);
  param.ah = ah_of_group(mgid, *port, id->tos);
  RdmaEvent event = membership_event(RdmaEventType::kMulticastJoin, membership, uid);
  event.param = param;
  post(*id, event);
  return 0;
}

int RdmaCm::leave(ChannelId channel, std::uint32_t membership, std::uint32_t& events_reported,
                  std::uint32_t& withdrawn) {
  const Memberships::Membership* const found = memberships_.find(membership);
  if (found == nullptr) return ENOENT;
  RdmaId* id = nullptr;
  if (const int error = find(channel, found->owner, id)) return error;
  events_reported = found->events_reported;
  withdrawn = withdraw(0, channel, id->handle, membership);
  memberships_.remove(*id, membership);
  shares_.objects.give_back(process_of(channel));
  return 0;
}

// --- questions --------------------------------------------------------------------------------

int RdmaCm::query(ChannelId channel, IdHandle handle, RouteInfo& info) const {
  RdmaId* id = nullptr;
  if (const int error = find(channel, handle, id)) return error;
  const PortInfo* port = id->device ? ports_.find(*id->device) : nullptr;
  std::optional<PathRecord> path;
  if (port != nullptr && id->is_addressed()) path = path_of(*id, *port);
  info = route_info(*id, port, path);
  return 0;
}

int RdmaCm::init_qp_attr(ChannelId channel, IdHandle handle, std::uint32_t qp_state,
                         QpAttr& attr) const {
  RdmaId* id = nullptr;
  if (const int error = find(channel, handle, id)) return error;
  const PortInfo* port = id->device ? ports_.find(*id->device) : nullptr;
  if (port == nullptr) return EINVAL;
  const Connection* connection = id->is_ud() ? nullptr : agent_.connection(id->comm);
  if (connection == nullptr) {
    attr = attributes_without_connection(*id, qp_state);
    return 0;
  }
  const auto known = attributes_of(*id, *port, path_of(*id, *port), *connection, qp_state);
  if (!known) return EINVAL;
  attr = *known;
  return 0;
}

PathRecord RdmaCm::path_of(const RdmaId& id, const PortInfo& port) const {
  return cm::path_of(id, port, ports_.remote(port, id.peer),
                     id.is_ud() ? nullptr : agent_.connection(id.comm));
}

std::set<limits::Holder> RdmaCm::listening_processes() const {
  std::set<limits::Holder> processes;
  for (const auto& [handle, id] : ids_) {
    if (id->state == IdState::kListening) processes.insert(process_of(id->channel));
  }
  return processes;
}

// Returns true if the process's shares are what it really holds.
bool RdmaCm::holds_its_shares(limits::Holder process) const {
  std::size_t objects = channels_.waiting_for(process);
  std::size_t ports = 0;
  for (const auto& [handle, id] : ids_) {
    if (process_of(id->channel) != process) continue;
    objects += 1 + id->memberships.size();
    ports += id->holds_port ? 1 : 0;
  }
  return shares_.objects.held_by(process) == objects && shares_.ports.held_by(process) == ports;
}

bool RdmaCm::is_consistent() const {
  if (!agent_.is_consistent() || !ids_.is_consistent()) return false;
  for (const auto& [handle, id] : ids_) {
    if (!channels_.contains(id->channel)) return false;
  }
  for (const auto& [number, membership] : memberships_) {
    const RdmaId* owner = ids_.get(membership.owner);
    if (owner == nullptr || std::ranges::count(owner->memberships, number) != 1) return false;
  }
  for (const limits::Holder process : channels_.processes()) {
    if (!holds_its_shares(process)) return false;
  }
  return channels_.is_consistent([this](IdHandle owner, ChannelId channel) {
    RdmaId* id = nullptr;
    return find(channel, owner, id) == 0;
  });
}

}  // namespace verbena::cm
