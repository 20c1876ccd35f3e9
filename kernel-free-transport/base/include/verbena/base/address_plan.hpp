// SPDX-License-Identifier: BSD-2-Clause
// How LIDs, GIDs and IP addresses of a fabric belong together. Arithmetic converts them, without a
// lookup. A port GUID holds the IPv4 address in its low half. On an InfiniBand device the LID is
// the host part of the port's address in the fabric's subnet, and the GID holds the port GUID. On a
// RoCE device the GIDs are the port's addresses; the default GID holds the port GUID. The two kinds
// of devices have different port GUIDs because they do not talk to each other.
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/base/address.hpp"

namespace verbena {

inline constexpr std::uint64_t kInfiniBandGuidPrefix = 0x02565200ull << 32;
inline constexpr std::uint64_t kNodeGuidPrefix = 0x02565201ull << 32;
inline constexpr std::uint64_t kRoceGuidPrefix = 0x02565202ull << 32;

struct AddressPlan {
  bool infiniband = true;
  std::uint32_t subnet = 0;  // IPv4, host order
  std::uint8_t prefix_length = 24;

  std::uint32_t host_mask() const {
    return prefix_length >= 32 ? 0 : ~std::uint32_t{0} >> prefix_length;
  }
  // Returns the port GUID of the port at an IPv4 address.
  std::uint64_t port_guid(std::uint32_t ipv4) const {
    return (infiniband ? kInfiniBandGuidPrefix : kRoceGuidPrefix) | ipv4;
  }

  Gid gid_of(const IpAddress& ip) const {
    if (infiniband && ip.is_v4()) return Gid::link_local(port_guid(ip.v4_host_order()));
    return Gid::from_ip(ip);
  }
  std::uint16_t lid_of(const IpAddress& ip) const {
    if (!infiniband || !ip.is_v4()) return 0;
    return static_cast<std::uint16_t>(ip.v4_host_order() & host_mask());
  }
  std::optional<IpAddress> address_of_lid(std::uint16_t lid) const {
    if (!infiniband || lid == 0 || (lid & ~host_mask()) != 0) return std::nullopt;
    return IpAddress::v4((subnet & ~host_mask()) | lid);
  }
  std::optional<IpAddress> address_of_gid(const Gid& gid) const {
    if (gid.is_zero() || gid.is_multicast()) return std::nullopt;
    if (gid.bytes[0] == 0xfe && (gid.bytes[1] & 0xc0) == 0x80) {
      const auto ipv4 = static_cast<std::uint32_t>(gid.interface_id());
      if (gid.interface_id() == port_guid(ipv4)) return IpAddress::v4(ipv4);
      if (gid.interface_id() == AddressPlan{.infiniband = !infiniband}.port_guid(ipv4)) {
        return std::nullopt;
      }
    }
    // Devices of both kinds join multicast groups by IP address.
    if (infiniband && !gid.as_ip().is_multicast()) return std::nullopt;
    return gid.as_ip();
  }
};

}  // namespace verbena
