// SPDX-License-Identifier: BSD-2-Clause
// Computes the MGID that carries an IP multicast group, as IPoIB and RoCE define it. A signature
// tells rdma_cm's groups from IPoIB's own. Pure functions, any thread.
#pragma once

#include <cstdint>

#include "verbena/cm/ip_header.hpp"
#include "verbena/cm/sockaddr.hpp"

namespace verbena::cm {

Gid mgid_of(const SocketAddress& group, PortSpace space, bool roce);

// Returns the MGID of a group that a subnet administrator makes for a join that names no group.
Gid assigned_mgid(std::uint64_t number);

// Returns the multicast LID of a group: a number in 0xc000..0xfffe that every port computes alike.
std::uint16_t mlid_of(const Gid& mgid);

}  // namespace verbena::cm
