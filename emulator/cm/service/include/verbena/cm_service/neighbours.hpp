// SPDX-License-Identifier: BSD-2-Clause
// Asks the host's kernel about its neighbours (ARP, neighbour discovery) by netlink, which needs no
// privilege. Any thread.
#pragma once

#include "verbena/base/address.hpp"

namespace verbena::cm_service {

// Returns true if the next hop to the address has answered or needs no question (the interface has
// no neighbours, the address is the host's own), and also if the kernel does not tell. If not,
// makes the kernel ask, by a datagram to the discard port that goes out once there is an answer.
bool has_answered(const IpAddress& address);

}  // namespace verbena::cm_service
