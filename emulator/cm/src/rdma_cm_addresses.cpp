// SPDX-License-Identifier: BSD-2-Clause
// Addresses: which device and which path belong to them, and the wait for a neighbour that has not
// said yet that it is there.
#include <cerrno>

#include "verbena/cm/rdma_cm.hpp"

namespace verbena::cm {

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

}  // namespace verbena::cm
