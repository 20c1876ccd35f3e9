// SPDX-License-Identifier: BSD-2-Clause
// The GID table of a RoCE port, filled as mlx5 adapters fill theirs: each address has two rows,
// first one of RoCE v1, then one of RoCE v2.
//
//    0, 1   the port's default GID: fe80::/64 and its port GUID, which leads to its IPv4 address.
//           A port whose address is IPv6 has its link-local address here, or its only one.
//    2, 3   the address that the device was made for
//    4 ..   further addresses of the interface: IPv4, then IPv6, also the link-local one; the rows
//           of an address that goes are free for the next
//
// What a port sends is RoCE v2 by whichever row: RoCE v1 has no place in UDP. A row of v1 leads
// where the one of v2 behind it does. Pure: no socket, no file.
#pragma once

#include <cstddef>
#include <vector>

#include "verbena/control/device_info.hpp"
#include "verbena/fabric/interfaces.hpp"

namespace verbena::fabric {

inline constexpr std::size_t kRoceGidTableLength = 16;

// Into `device.gids`, whose rows stay where they are as long as their addresses do; finds out which
// interface has the device's address, too. `interfaces` are the host's; `taken` are addresses that
// other devices were made for. Of a loopback interface's addresses a port has only its own, as the
// others are everybody's.
void fill_roce_gids(control::DeviceInfo& device, const std::vector<Interface>& interfaces,
                    const std::vector<IpAddress>& taken);

}  // namespace verbena::fabric
