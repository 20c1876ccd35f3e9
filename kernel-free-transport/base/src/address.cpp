// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/base/address.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdio>

namespace verbena {
namespace {

constexpr std::array<std::uint8_t, 12> kMappedPrefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

std::string format_groups(const std::array<std::uint8_t, 16>& bytes) {
  char text[48];
  std::snprintf(text, sizeof text,
                "%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x", bytes[0],
                bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7], bytes[8],
                bytes[9], bytes[10], bytes[11], bytes[12], bytes[13], bytes[14], bytes[15]);
  return text;
}

}  // namespace

IpAddress IpAddress::v4(std::uint32_t host_order) {
  IpAddress ip;
  std::copy(kMappedPrefix.begin(), kMappedPrefix.end(), ip.bytes.begin());
  for (std::size_t i = 0; i < 4; ++i) {
    ip.bytes[12 + i] = static_cast<std::uint8_t>(host_order >> (24 - 8 * i));
  }
  return ip;
}

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  // inet_pton wants a zero behind the text, so the text itself may have none.
  char terminated[INET6_ADDRSTRLEN] = {};
  if (text.size() >= sizeof terminated || text.find('\0') != text.npos) return std::nullopt;
  text.copy(terminated, text.size());
  in_addr quad;
  if (inet_pton(AF_INET, terminated, &quad) == 1) return v4(ntohl(quad.s_addr));
  IpAddress ip;
  if (inet_pton(AF_INET6, terminated, ip.bytes.data()) == 1) return ip;
  return std::nullopt;
}

std::uint32_t IpAddress::v4_host_order() const {
  return std::uint32_t{bytes[12]} << 24 | std::uint32_t{bytes[13]} << 16 |
         std::uint32_t{bytes[14]} << 8 | bytes[15];
}

bool IpAddress::is_multicast() const {
  return is_v4() ? (bytes[12] & 0xf0) == 0xe0 : bytes[0] == 0xff;
}

bool IpAddress::is_unspecified() const {
  return *this == IpAddress{} || (is_v4() && v4_host_order() == 0);
}

std::string IpAddress::to_string() const {
  if (!is_v4()) return format_groups(bytes);
  char text[16];
  std::snprintf(text, sizeof text, "%u.%u.%u.%u", bytes[12], bytes[13], bytes[14], bytes[15]);
  return text;
}

Gid Gid::link_local(std::uint64_t guid) {
  Gid gid;
  gid.bytes[0] = 0xfe;
  gid.bytes[1] = 0x80;
  for (std::size_t i = 0; i < 8; ++i) {
    gid.bytes[8 + i] = static_cast<std::uint8_t>(guid >> (56 - 8 * i));
  }
  return gid;
}

std::uint64_t Gid::interface_id() const {
  std::uint64_t id = 0;
  for (std::size_t i = 8; i < 16; ++i) id = (id << 8) | bytes[i];
  return id;
}

bool Gid::is_zero() const { return *this == Gid{}; }

std::string Gid::to_string() const { return format_groups(bytes); }

}  // namespace verbena
