// SPDX-License-Identifier: BSD-2-Clause
// Computes the path from an ID's port to its peer, and the queue pair attributes that follow from
// the path and the connection. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/cm/connection.hpp"
#include "verbena/cm/ports.hpp"
#include "verbena/cm/rdma_id.hpp"

namespace verbena::cm {

// `connection` is null while there is no request.
PathRecord path_of(const RdmaId& id, const PortInfo& port, const RemotePort& remote,
                   const Connection* connection);
AhAttr ah_of(const PathRecord& path, const PortInfo& port);
AhAttr ah_of_group(const Gid& mgid, const PortInfo& port, std::uint8_t traffic_class);

// Returns what the program may know of its ID's route. `port` is null while no device is chosen,
// and `path` is empty while no destination is resolved.
RouteInfo route_info(const RdmaId& id, const PortInfo* port, const std::optional<PathRecord>& path);

// Returns the attributes for INIT of an ID without a connection.
QpAttr attributes_without_connection(const RdmaId& id, std::uint32_t qp_state);
// Returns nothing if the connection does not know the attributes for this state, or no longer does.
std::optional<QpAttr> attributes_of(const RdmaId& id, const PortInfo& port, const PathRecord& path,
                                    const Connection& connection, std::uint32_t qp_state);

}  // namespace verbena::cm
