// SPDX-License-Identifier: BSD-2-Clause
// The arithmetic of the fabric: which GUID, LID, GID and multicast group belong to an address.
// No table and no one to ask, on one host or on many.
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/base/address.hpp"
#include "verbena/control/device_info.hpp"

namespace verbena::control {

struct Subnet {
  IpAddress base;                  // host part clear
  std::uint8_t prefix_length = 0;  // in the address's own family

  bool contains(const IpAddress& address) const;
  bool operator==(const Subnet&) const = default;
};

// Each user's own part of 127.0.0.0/8, so that two users never collide.
Subnet default_subnet(std::uint32_t uid);

// The `number`-th of some 32,000 parts of 127.0.0.0/8 for emulators that choose one themselves;
// never the user's own.
Subnet private_subnet(std::uint32_t uid, std::uint64_t number);

// The host part; none for host part 0, beyond the unicast LIDs (0xbfff), or outside the subnet.
std::optional<std::uint16_t> lid_of(const Subnet& subnet, const IpAddress& address);
IpAddress address_of_lid(const Subnet& subnet, std::uint16_t lid);

// EUI-64s with the local bit set. An IPv6 address is folded to 32 bits. Those of ports are of two
// kinds, so that a GID made of one says whose it is.
std::uint64_t port_guid_of(const IpAddress& address, Persona persona);
std::uint64_t node_guid_of(const IpAddress& address);

// The address behind a GID: RoCE GIDs are the address itself; an InfiniBand GID and the default GID
// of a RoCE port (fe80::/64) hold it in a port GUID. None for a GID that is neither.
std::optional<IpAddress> address_of_gid(const Gid& gid);

// The IP multicast group that carries an MGID. A v4-mapped or an IPv6 MGID is its own group; an
// IPoIB one (ff1x:401b::) holds an IPv4 group in its low 28 bits; any other is spread over
// 239.192.0.0/14. `v4` is the family of the port's address.
IpAddress group_of_mgid(const Gid& mgid, bool v4);

}  // namespace verbena::control
