// SPDX-License-Identifier: BSD-2-Clause
// The calls that come before a connection: binding, routes, listeners, options, multicast.
#include <cerrno>

#include "verbena/cm/id_options.hpp"
#include "verbena/cm/multicast.hpp"
#include "verbena/cm/qp_attributes.hpp"
#include "verbena/cm/rdma_cm.hpp"

namespace verbena::cm {

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

int RdmaCm::bind(ChannelId channel, IdHandle handle, const SocketAddress& address) {
  RdmaId* id = nullptr;
  if (const int error = find(channel, handle, id)) return error;
  if (!address.is_set()) return EAFNOSUPPORT;
  return bind_id(*id, address);
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
  // From a port that is down no question reaches a subnet administrator; RoCE asks none.
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

// --- options ----------------------------------------------------------------------------------

// Path records of the caller's making (ibacm): taken as "the route is known". The path itself
// is arithmetic here, so nothing in the records can differ and still be right.
int RdmaCm::set_path(RdmaId& id, std::span<const std::uint8_t> records) {
  if (!has_usable_path(records) || id.state != IdState::kAddressResolved) return EINVAL;
  id.state = IdState::kRouteResolved;
  post(id, RdmaEventType::kRouteResolved);
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
  if (address.is_any() && port->roce) return EINVAL;  // nobody assigns groups
  if (!may_add_object(channel)) return ENOMEM;

  membership = memberships_.add(*id, uid);
  shares_.objects.take(process_of(channel));

  UdParam param;
  param.qp_num = kMulticastQpn.value();
  param.qkey = id->qkey_in_use();
  const Gid mgid =
      address.is_any() ? assigned_mgid(random_.next()) : mgid_of(address, id->space, port->roce);
  param.ah = ah_of_group(mgid, *port, id->tos);
  RdmaEvent event;
  event.type = RdmaEventType::kMulticastJoin;
  event.param = param;
  event.membership = membership;
  event.uid = uid;
  event.id = membership;
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

}  // namespace verbena::cm
