// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/base/address.hpp"

#include <algorithm>
#include <cstdio>

namespace verbena {
namespace {

constexpr std::array<std::uint8_t, 12> kMappedPrefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

// Parses a decimal octet without leading zeros and advances `text` past it.
std::optional<std::uint8_t> take_octet(std::string_view& text) {
  unsigned value = 0;
  std::size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
    value = value * 10 + static_cast<unsigned>(text[digits] - '0');
    if (++digits > 3) return std::nullopt;
  }
  if (digits == 0 || value > 255 || (digits > 1 && text[0] == '0')) return std::nullopt;
  text.remove_prefix(digits);
  return static_cast<std::uint8_t>(value);
}

std::optional<std::uint32_t> parse_v4(std::string_view text) {
  std::uint32_t address = 0;
  for (int i = 0; i < 4; ++i) {
    if (i > 0) {
      if (text.empty() || text[0] != '.') return std::nullopt;
      text.remove_prefix(1);
    }
    const auto octet = take_octet(text);
    if (!octet) return std::nullopt;
    address = (address << 8) | *octet;
  }
  if (!text.empty()) return std::nullopt;
  return address;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

struct V6Groups {
  std::array<std::uint16_t, 8> values{};
  int count = 0;
  bool push(std::uint16_t v) {
    if (count == 8) return false;
    values[static_cast<std::size_t>(count++)] = v;
    return true;
  }
};

// Parses the groups on one side of "::". A dotted quad may be the last one.
bool parse_groups(std::string_view text, V6Groups& out) {
  while (!text.empty()) {
    const std::size_t colon = text.find(':');
    const std::string_view group = text.substr(0, colon);
    if (group.find('.') != std::string_view::npos) {
      const auto quad = parse_v4(group);
      return quad && colon == std::string_view::npos &&
             out.push(static_cast<std::uint16_t>(*quad >> 16)) &&
             out.push(static_cast<std::uint16_t>(*quad));
    }
    if (group.empty() || group.size() > 4) return false;
    unsigned value = 0;
    for (const char c : group) {
      const int digit = hex_digit(c);
      if (digit < 0) return false;
      value = value * 16 + static_cast<unsigned>(digit);
    }
    if (!out.push(static_cast<std::uint16_t>(value))) return false;
    if (colon == std::string_view::npos) return true;
    text.remove_prefix(colon + 1);
    if (text.empty()) return false;
  }
  return true;
}

std::optional<std::array<std::uint8_t, 16>> parse_v6(std::string_view text) {
  V6Groups head;
  V6Groups tail;
  const std::size_t gap = text.find("::");
  if (gap == std::string_view::npos) {
    if (!parse_groups(text, head) || head.count != 8) return std::nullopt;
  } else {
    if (!parse_groups(text.substr(0, gap), head) || !parse_groups(text.substr(gap + 2), tail) ||
        head.count + tail.count > 7) {
      return std::nullopt;
    }
  }
  std::array<std::uint8_t, 16> bytes{};
  const auto put = [&bytes](int at, std::uint16_t v) {
    bytes[static_cast<std::size_t>(2 * at)] = static_cast<std::uint8_t>(v >> 8);
    bytes[static_cast<std::size_t>(2 * at + 1)] = static_cast<std::uint8_t>(v);
  };
  for (int i = 0; i < head.count; ++i) put(i, head.values[static_cast<std::size_t>(i)]);
  for (int i = 0; i < tail.count; ++i) {
    put(8 - tail.count + i, tail.values[static_cast<std::size_t>(i)]);
  }
  return bytes;
}

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
  for (int i = 0; i < 4; ++i) {
    ip.bytes[static_cast<std::size_t>(12 + i)] =
        static_cast<std::uint8_t>(host_order >> (24 - 8 * i));
  }
  return ip;
}

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  if (const auto quad = parse_v4(text)) return v4(*quad);
  if (const auto bytes = parse_v6(text)) return v6(*bytes);
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
  for (int i = 0; i < 8; ++i) {
    gid.bytes[static_cast<std::size_t>(8 + i)] = static_cast<std::uint8_t>(guid >> (56 - 8 * i));
  }
  return gid;
}

std::uint64_t Gid::interface_id() const {
  std::uint64_t id = 0;
  for (int i = 8; i < 16; ++i) id = (id << 8) | bytes[static_cast<std::size_t>(i)];
  return id;
}

bool Gid::is_zero() const { return *this == Gid{}; }

std::string Gid::to_string() const { return format_groups(bytes); }

}  // namespace verbena
