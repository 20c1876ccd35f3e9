// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/control/address_plan.hpp"

#include "verbena/base/address_plan.hpp"

namespace verbena::control {
namespace {

constexpr std::uint16_t kLastUnicastLid = 0xbfff;

std::uint32_t folded(const IpAddress& address) {
  if (address.is_v4()) return address.v4_host_order();
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < 16; i += 4) {
    word ^= std::uint32_t{address.bytes[i]} << 24 | std::uint32_t{address.bytes[i + 1]} << 16 |
            std::uint32_t{address.bytes[i + 2]} << 8 | address.bytes[i + 3];
  }
  return word;
}

// Returns the second and third byte of an address in 127.0.0.0/8.
std::uint32_t default_index(std::uint32_t uid) { return 256 + uid % 65280; }
Subnet loopback_subnet(std::uint32_t index) {
  return {IpAddress::v4(0x7f000000u | index << 8), 24};
}

unsigned prefix_in_128(const Subnet& subnet) {
  return subnet.base.is_v4() ? 96u + subnet.prefix_length : subnet.prefix_length;
}

// Hashes an MGID (FNV-1a), to spread MGIDs over the groups.
std::uint32_t hash_of(const Gid& gid) {
  std::uint32_t h = 2166136261u;
  for (const std::uint8_t b : gid.bytes) h = (h ^ b) * 16777619u;
  return h ^ (h >> 15);
}

}  // namespace

bool Subnet::contains(const IpAddress& address) const {
  if (address.is_v4() != base.is_v4()) return false;
  const unsigned bits = prefix_in_128(*this);
  for (unsigned i = 0; i < bits; ++i) {
    const std::uint8_t mask = static_cast<std::uint8_t>(0x80u >> (i % 8));
    if (((address.bytes[i / 8] ^ base.bytes[i / 8]) & mask) != 0) return false;
  }
  return true;
}

Subnet default_subnet(std::uint32_t uid) { return loopback_subnet(default_index(uid)); }

// Counts from 127.128.0.0 on, which only rare user ids have as their own part.
Subnet private_subnet(std::uint32_t uid, std::uint64_t number) {
  constexpr std::uint32_t kFirst = 128u << 8;
  constexpr std::uint32_t kCount = (127u << 8) - 1;
  const std::uint32_t index = kFirst + static_cast<std::uint32_t>(number % kCount);
  return loopback_subnet(index == default_index(uid) ? kFirst + kCount : index);
}

std::optional<std::uint16_t> lid_of(const Subnet& subnet, const IpAddress& address) {
  if (!subnet.contains(address)) return std::nullopt;
  std::uint64_t host = 0;
  for (unsigned bit = prefix_in_128(subnet); bit < 128; ++bit) {
    if (host > kLastUnicastLid) return std::nullopt;
    host = host << 1 | ((address.bytes[bit / 8] >> (7 - bit % 8)) & 1u);
  }
  if (host == 0 || host > kLastUnicastLid) return std::nullopt;
  return static_cast<std::uint16_t>(host);
}

IpAddress address_of_lid(const Subnet& subnet, std::uint16_t lid) {
  IpAddress address = subnet.base;
  address.bytes[14] = static_cast<std::uint8_t>(address.bytes[14] | lid >> 8);
  address.bytes[15] = static_cast<std::uint8_t>(address.bytes[15] | (lid & 0xff));
  return address;
}

std::uint64_t port_guid_of(const IpAddress& address, Persona persona) {
  const bool is_roce = persona == Persona::kRoce;
  return (is_roce ? kRoceGuidPrefix : kInfiniBandGuidPrefix) | folded(address);
}

std::uint64_t node_guid_of(const IpAddress& address) { return kNodeGuidPrefix | folded(address); }

std::optional<IpAddress> address_of_gid(const Gid& gid) {
  if (gid.is_zero() || gid.is_multicast()) return std::nullopt;
  const std::uint64_t id = gid.interface_id();
  const auto ipv4 = static_cast<std::uint32_t>(id);
  const bool has_port_guid = (id - ipv4 == kInfiniBandGuidPrefix || id - ipv4 == kRoceGuidPrefix) &&
                             gid == Gid::link_local(id);
  return has_port_guid ? IpAddress::v4(ipv4) : gid.as_ip();
}

IpAddress group_of_mgid(const Gid& mgid, bool v4) {
  const IpAddress itself = mgid.as_ip();
  if (itself.is_v4()) return itself;
  if (!v4) return itself;
  if (mgid.bytes[2] == 0x40 && mgid.bytes[3] == 0x1b) {
    const std::uint32_t low = static_cast<std::uint32_t>(mgid.interface_id()) & 0x0fffffffu;
    return IpAddress::v4(0xe0000000u | low);
  }
  return IpAddress::v4(0xefc00000u | (hash_of(mgid) & 0x3ffffu));
}

}  // namespace verbena::control
