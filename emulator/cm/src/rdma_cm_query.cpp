// SPDX-License-Identifier: BSD-2-Clause
// What a program may ask of an ID: its route, and the attributes for its queue pair.
#include <cerrno>

#include "verbena/cm/qp_attributes.hpp"
#include "verbena/cm/rdma_cm.hpp"

namespace verbena::cm {

PathRecord RdmaCm::path_of(const RdmaId& id, const PortInfo& port) const {
  return cm::path_of(id, port, ports_.remote(port, id.peer),
                     id.is_ud() ? nullptr : agent_.connection(id.comm));
}

int RdmaCm::query(ChannelId channel, IdHandle handle, RouteInfo& info) const {
  RdmaId* id = nullptr;
  if (const int error = find(channel, handle, id)) return error;
  info = {};
  info.source = id->source;
  info.destination = id->destination;
  info.source_service = service_id_of(id->space, id->source.port);
  info.destination_service = service_id_of(id->space, id->destination.port);
  info.port = id->device ? ports_.find(*id->device) : nullptr;
  if (info.port == nullptr) return 0;
  const bool addressed = id->destination.is_set() && id->state != IdState::kBound &&
                         id->state != IdState::kAddressQuery;
  if (addressed) {
    info.path = path_of(*id, *info.port);
  } else {
    info.path.sgid = info.port->gid;
    info.path.pkey = info.port->pkey;
  }
  info.has_path = addressed && id->state != IdState::kAddressResolved;
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

}  // namespace verbena::cm
