// SPDX-License-Identifier: BSD-2-Clause
// From an IP multicast group to the MGID that carries it, as IPoIB and RoCE define it, with the
// signature that tells rdma_cm's groups from IPoIB's own. Pure functions, any thread.
#pragma once

#include <cstdint>

#include "verbena/cm/ip_header.hpp"
#include "verbena/cm/sockaddr.hpp"

namespace verbena::cm {

Gid mgid_of(const SocketAddress& group, PortSpace space, bool roce);

// Of a group that a subnet administrator makes for whoever joins no particular one.
Gid assigned_mgid(std::uint64_t number);

// The multicast LID of a group: a number every port computes alike, in 0xc000..0xfffe.
std::uint16_t mlid_of(const Gid& mgid);

}  // namespace verbena::cm
