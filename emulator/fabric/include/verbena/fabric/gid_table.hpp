// SPDX-License-Identifier: BSD-2-Clause
// The GID table of a RoCE port, filled as on mlx5 adapters: each address has two rows, first one
// for RoCE v1, then one for RoCE v2.
//
//    0, 1   the port's default GID: fe80::/64 and its port GUID, which maps to its IPv4 address.
//           A port whose address is IPv6 has its link-local address here, or its only one.
//    2, 3   the address that the device was made for
//    4 ..   further addresses of the interface: IPv4, then IPv6, link-local included; if an address
//           is removed, the next new one gets its rows
//
// A port sends RoCE v2 whichever row is used: UDP cannot carry RoCE v1. A v1 row means the same
// address as the v2 row behind it. Pure: no socket, no file.
#pragma once

#include <cstddef>
#include <vector>

#include "verbena/control/device_info.hpp"
#include "verbena/fabric/interfaces.hpp"

namespace verbena::fabric {

inline constexpr std::size_t kRoceGidTableLength = 16;

// Fills `device.gids`. An address keeps its rows as long as it exists. Also finds the interface
// that has the device's address. `interfaces` are the host's; `taken` are addresses of other
// devices. On a loopback interface a port has only its own address, because all ports share the
// others.
void fill_roce_gids(control::DeviceInfo& device, const std::vector<Interface>& interfaces,
                    const std::vector<IpAddress>& taken);

}  // namespace verbena::fabric
