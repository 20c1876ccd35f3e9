// SPDX-License-Identifier: BSD-2-Clause
// Addresses of the fabric: an IP address in one 16-byte form (IPv4 is v4-mapped), and the GID,
// which on RoCEv2 is the same sixteen bytes.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace verbena {

inline constexpr std::uint16_t kRoceUdpPort = 4791;

struct IpAddress {
  std::array<std::uint8_t, 16> bytes{};

  // `host_order` is 0x7f000001 for 127.0.0.1.
  static IpAddress v4(std::uint32_t host_order);
  static IpAddress v6(const std::array<std::uint8_t, 16>& bytes) { return {bytes}; }
  static std::optional<IpAddress> parse(std::string_view text);

  constexpr bool is_v4() const {
    const auto [high, low] = words();
    return high == 0 && (low & kMappedMask) == kMapped;
  }
  // Says whether the address is in 127.0.0.0/8.
  constexpr bool is_v4_loopback() const { return is_v4() && bytes[12] == 127; }
  std::uint32_t v4_host_order() const;
  bool is_multicast() const;
  bool is_unspecified() const;
  std::string to_string() const;
  auto operator<=>(const IpAddress&) const = default;
  // Compares words: each packet needs this comparison.
  constexpr bool operator==(const IpAddress& other) const { return words() == other.words(); }

 private:
  using Words = std::array<std::uint64_t, 2>;
  constexpr Words words() const { return std::bit_cast<Words>(bytes); }
  // The prefix ::ffff:0:0/96, as it appears in the second word.
  static constexpr std::uint64_t kMappedMask =
      std::bit_cast<std::uint64_t>(std::array<std::uint8_t, 8>{0xff, 0xff, 0xff, 0xff});
  static constexpr std::uint64_t kMapped =
      std::bit_cast<std::uint64_t>(std::array<std::uint8_t, 8>{0, 0, 0xff, 0xff});
};

struct Gid {
  std::array<std::uint8_t, 16> bytes{};

  static Gid from_ip(const IpAddress& ip) { return {ip.bytes}; }
  // Joins the subnet prefix fe80::/64 and an EUI-64 port GUID, given in host order.
  static Gid link_local(std::uint64_t guid);
  IpAddress as_ip() const { return {bytes}; }
  std::uint64_t interface_id() const;
  bool is_zero() const;
  bool is_multicast() const { return bytes[0] == 0xff; }
  // Example: fe80:0000:0000:0000:0256:42ff:fe00:0001
  std::string to_string() const;
  bool operator==(const Gid&) const = default;
};

}  // namespace verbena
