// SPDX-License-Identifier: BSD-2-Clause
// A socket address of the three families of rdma_cm, as a value instead of a sockaddr_storage.
// Parsing and writing use the layouts of Linux: sockaddr_in (16), sockaddr_in6 (28) and
// sockaddr_ib (48 bytes). Pure functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "verbena/base/address.hpp"

namespace verbena::cm {

enum class Family : std::uint16_t { kNone = 0, kInet = 2, kInet6 = 10, kIb = 27 };

struct SocketAddress {
  Family family = Family::kNone;
  std::uint16_t port = 0;  // host order; for AF_IB the low 16 bits of the service ID
  IpAddress ip;            // for AF_IB the GID
  std::uint32_t flow_info = 0;
  std::uint32_t scope_id = 0;
  std::uint16_t pkey = 0;  // this and what follows is for AF_IB only
  std::uint64_t service_id = 0;
  std::uint64_t service_mask = 0;
  bool operator==(const SocketAddress&) const = default;

  static constexpr std::size_t kMaxSize = 48;

  // Returns nothing for another family or too few bytes. Ignores more bytes than the family needs.
  static std::optional<SocketAddress> parse(std::span<const std::uint8_t> bytes);
  static SocketAddress of(const IpAddress& ip, std::uint16_t port);
  static SocketAddress of_gid(const Gid& gid, std::uint64_t service_id, std::uint16_t pkey);

  bool is_set() const { return family != Family::kNone; }
  // Returns true for the wildcard of the family, and if there is no address at all.
  bool is_any() const;
  // No interface has an IPv4-mapped address.
  bool is_v4_mapped() const { return family == Family::kInet6 && ip.is_v4(); }
  // A link-local address or group; without a scope ID it is unknown on which link.
  bool is_link_local() const;
  std::size_t size() const;
  // Writes size() bytes and returns their number. `bytes` must hold kMaxSize.
  std::size_t write_to(std::span<std::uint8_t> bytes) const;
};

}  // namespace verbena::cm
