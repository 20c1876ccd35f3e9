// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm/sockaddr.hpp"

#include <algorithm>
#include <cstring>

#include "verbena/base/check.hpp"
#include "verbena/cm/field.hpp"

namespace verbena::cm {
namespace {

// The family comes first, in host order. All else is in network order except the scope ID.
//   in   2 port   4 address
//   in6  2 port   4 flow info   8 address   24 scope ID
//   ib   2 P_Key  4 flow info   8 GID   24 service ID   32 service mask   40 scope ID
constexpr Field kPort{"port", 2, 0, 16};
constexpr Field kV4{"address", 4, 0, 32};
constexpr Field kFlow{"flow_info", 4, 0, 32};
constexpr Field kServiceId{"service_id", 24, 0, 64};
constexpr Field kServiceMask{"service_mask", 32, 0, 64};
constexpr std::size_t kAddressAt = 8;
constexpr std::size_t kScopeAt = 24;

std::size_t size_of(Family family) {
  switch (family) {
    case Family::kInet:
      return 16;
    case Family::kInet6:
      return 28;
    case Family::kIb:
      return 48;
    case Family::kNone:
      break;
  }
  return 0;
}

}  // namespace

std::optional<SocketAddress> SocketAddress::parse(std::span<const std::uint8_t> bytes) {
  std::uint16_t family = 0;
  if (bytes.size() < sizeof family) return std::nullopt;
  std::memcpy(&family, bytes.data(), sizeof family);
  SocketAddress a;
  a.family = static_cast<Family>(family);
  if (size_of(a.family) == 0 || bytes.size() < size_of(a.family)) return std::nullopt;
  const auto word = static_cast<std::uint16_t>(read_bits(bytes, kPort));
  if (a.family == Family::kInet) {
    a.port = word;
    a.ip = IpAddress::v4(static_cast<std::uint32_t>(read_bits(bytes, kV4)));
    return a;
  }
  a.flow_info = static_cast<std::uint32_t>(read_bits(bytes, kFlow));
  std::copy_n(bytes.begin() + kAddressAt, 16, a.ip.bytes.begin());
  if (a.family == Family::kInet6) {
    a.port = word;
    std::memcpy(&a.scope_id, bytes.data() + kScopeAt, sizeof a.scope_id);
  } else {
    a.pkey = word;
    a.service_id = read_bits(bytes, kServiceId);
    a.service_mask = read_bits(bytes, kServiceMask);
    a.port = static_cast<std::uint16_t>(a.service_id & a.service_mask);
  }
  return a;
}

SocketAddress SocketAddress::of(const IpAddress& ip, std::uint16_t port) {
  SocketAddress a;
  a.family = ip.is_v4() ? Family::kInet : Family::kInet6;
  a.ip = ip;
  a.port = port;
  return a;
}

SocketAddress SocketAddress::of_gid(const Gid& gid, std::uint64_t service_id, std::uint16_t pkey) {
  SocketAddress a;
  a.family = Family::kIb;
  a.ip = gid.as_ip();
  a.pkey = pkey;
  a.service_id = service_id;
  a.service_mask = ~std::uint64_t{0};
  a.port = static_cast<std::uint16_t>(service_id);
  return a;
}

bool SocketAddress::is_any() const {
  switch (family) {
    case Family::kInet:
      return ip.v4_host_order() == 0;
    case Family::kInet6:
    case Family::kIb:
      return ip.bytes == std::array<std::uint8_t, 16>{};
    case Family::kNone:
      break;
  }
  return true;
}

bool SocketAddress::is_link_local() const {
  if (family != Family::kInet6) return false;
  return (ip.bytes[0] == 0xfe && (ip.bytes[1] & 0xc0) == 0x80) ||
         (ip.bytes[0] == 0xff && (ip.bytes[1] & 0x0f) == 2);
}

std::size_t SocketAddress::size() const { return size_of(family); }

std::size_t SocketAddress::write_to(std::span<std::uint8_t> bytes) const {
  VERBENA_CHECK(bytes.size() >= kMaxSize);
  std::fill_n(bytes.begin(), size(), std::uint8_t{0});
  if (!is_set()) return 0;
  std::memcpy(bytes.data(), &family, sizeof family);
  if (family == Family::kInet) {
    write_bits(bytes, kPort, port);
    write_bits(bytes, kV4, ip.v4_host_order());
    return size();
  }
  write_bits(bytes, kFlow, flow_info);
  std::copy_n(ip.bytes.begin(), 16, bytes.begin() + kAddressAt);
  if (family == Family::kInet6) {
    write_bits(bytes, kPort, port);
    std::memcpy(bytes.data() + kScopeAt, &scope_id, sizeof scope_id);
  } else {
    write_bits(bytes, kPort, pkey);
    write_bits(bytes, kServiceId, service_id);
    write_bits(bytes, kServiceMask, service_mask);
  }
  return size();
}

}  // namespace verbena::cm
