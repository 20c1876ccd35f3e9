// SPDX-License-Identifier: BSD-2-Clause
// What the host's kernel knows of its neighbours (ARP, neighbour discovery), asked by netlink,
// which needs no privilege. Any thread.
#pragma once

#include "verbena/base/address.hpp"

namespace verbena::cm_service {

// Whether the next hop to the address has answered, or needs no question: a device without
// neighbours, an address of the host's own. True, too, where the kernel does not tell. If not, the
// kernel is made to ask: by a datagram to the discard port, which goes once there is an answer.
bool has_answered(const IpAddress& address);

}  // namespace verbena::cm_service
