// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm/multicast.hpp"

#include <algorithm>

namespace verbena::cm {
namespace {

constexpr std::uint8_t kScopeLinkLocal = 2;
constexpr std::uint8_t kRdmaCmSignature = 0x01;
constexpr std::uint8_t kIpv4Signature = 0x40;
constexpr std::uint8_t kIpv6Signature = 0x60;
constexpr std::uint8_t kIpoibSignature = 0x1b;

// Returns ff12:401b:ffff:0000:0000:0000:0iii:iiii for IPv4, ff12:601b:ffff:<80 bits> for IPv6. With
// rdma_cm's signature the fourth byte is 01.
Gid infiniband_mgid(const SocketAddress& group, PortSpace space) {
  Gid mgid;
  auto& b = mgid.bytes;
  b[0] = 0xff;
  b[1] = 0x10 | kScopeLinkLocal;
  b[3] = space == PortSpace::kUdp ? kRdmaCmSignature : kIpoibSignature;
  b[4] = b[5] = 0xff;  // the default partition
  if (group.family == Family::kInet) {
    b[2] = kIpv4Signature;
    const std::uint32_t v4 = group.ip.v4_host_order() & 0x0fffffff;
    for (int i = 0; i < 4; ++i)
      b[12 + static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(v4 >> (24 - 8 * i));
  } else {
    b[2] = kIpv6Signature;
    std::copy_n(group.ip.bytes.begin() + 6, 10, b.begin() + 6);
  }
  return mgid;
}

// Recognises ff1x:a01b:..., which a subnet administrator has assigned. It is used unchanged.
bool is_assigned_mgid(const IpAddress& ip) {
  return ip.bytes[0] == 0xff && (ip.bytes[1] & 0xf0) == 0x10 && ip.bytes[2] == 0xa0 &&
         ip.bytes[3] == kIpoibSignature;
}

}  // namespace

Gid assigned_mgid(std::uint64_t number) {
  Gid mgid;
  mgid.bytes = {0xff, 0x10 | kScopeLinkLocal, 0xa0, kIpoibSignature, 0xff, 0xff};
  for (std::size_t i = 0; i < sizeof number; ++i) {
    mgid.bytes[8 + i] = static_cast<std::uint8_t>(number >> (56 - 8 * i));
  }
  return mgid;
}

Gid mgid_of(const SocketAddress& group, PortSpace space, bool roce) {
  if (group.family == Family::kIb) return Gid{group.ip.bytes};
  if (roce) return Gid::from_ip(group.ip);
  if (group.family == Family::kInet6 && is_assigned_mgid(group.ip)) return Gid{group.ip.bytes};
  return infiniband_mgid(group, space);
}

std::uint16_t mlid_of(const Gid& mgid) {
  std::uint32_t hash = 2166136261u;  // FNV-1a
  for (const std::uint8_t b : mgid.bytes) hash = (hash ^ b) * 16777619u;
  return static_cast<std::uint16_t>(0xc000 + (hash ^ hash >> 16) % 0x3fff);
}

}  // namespace verbena::cm
