// SPDX-License-Identifier: BSD-2-Clause
// Computes the GUID, LID, GID and multicast group that belong to an address of the fabric. All of
// it is arithmetic, so it needs no table and no subnet manager, on one host or on many.
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/base/address.hpp"
#include "verbena/control/device_info.hpp"

namespace verbena::control {

struct Subnet {
  IpAddress base;                  // the host part is zero
  std::uint8_t prefix_length = 0;  // counts bits of the address's own family

  bool contains(const IpAddress& address) const;
  bool operator==(const Subnet&) const = default;
};

// Returns the user's own part of 127.0.0.0/8. Two users collide only if their ids are equal modulo
// 65,280.
Subnet default_subnet(std::uint32_t uid);

// Returns the `number`-th of some 32,000 parts of 127.0.0.0/8, for emulators that choose a part
// themselves. It is never the user's own part.
Subnet private_subnet(std::uint32_t uid, std::uint64_t number);

// Returns the host part. Returns nothing if it is 0 or above the unicast LIDs (0xbfff), or if the
// address is outside the subnet.
std::optional<std::uint16_t> lid_of(const Subnet& subnet, const IpAddress& address);
IpAddress address_of_lid(const Subnet& subnet, std::uint16_t lid);

// Return EUI-64s with the local bit set. An IPv6 address is folded to 32 bits. The prefix of a
// port's GUID depends on the persona, so that a GID made of it tells the kind of the port.
std::uint64_t port_guid_of(const IpAddress& address, Persona persona);
std::uint64_t node_guid_of(const IpAddress& address);

// Returns the address behind a GID. A RoCE GID is the address itself. An InfiniBand GID and the
// default GID of a RoCE port (fe80::/64) hold the address in a port GUID. Returns nothing for a GID
// that is zero or multicast.
std::optional<IpAddress> address_of_gid(const Gid& gid);

// Returns the IP multicast group that carries an MGID. `v4` says that the port's address is IPv4. A
// v4-mapped MGID is its own group, and on an IPv6 port every MGID is. On an IPv4 port an IPoIB MGID
// (ff1x:401b::) holds the group in its low 28 bits, and other MGIDs are spread over 239.192.0.0/14.
IpAddress group_of_mgid(const Gid& mgid, bool v4);

}  // namespace verbena::control
