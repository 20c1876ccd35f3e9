// SPDX-License-Identifier: BSD-2-Clause
// The path from an ID's port to its peer, and what a queue pair needs of it and of the connection.
// Pure functions, any thread.
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

// What the program may know of its ID's way. `port` is null while no device is chosen, and there is
// no `path` while no destination is resolved.
RouteInfo route_info(const RdmaId& id, const PortInfo* port, const std::optional<PathRecord>& path);

// The attributes for INIT of an ID without a connection.
QpAttr attributes_without_connection(const RdmaId& id, std::uint32_t qp_state);
// Nothing for a state whose attributes the connection does not know, or not any more.
std::optional<QpAttr> attributes_of(const RdmaId& id, const PortInfo& port, const PathRecord& path,
                                    const Connection& connection, std::uint32_t qp_state);

}  // namespace verbena::cm
