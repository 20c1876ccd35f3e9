// SPDX-License-Identifier: BSD-2-Clause
// The IP and UDP headers of a packet. The kernel writes the real ones; these are for computing the
// ICRC, for captures and for tests.
#pragma once

#include <cstddef>
#include <cstdint>

#include "verbena/base/address.hpp"

namespace verbena::wire {

inline constexpr std::size_t kIpv4HeaderSize = 20;
inline constexpr std::size_t kIpv6HeaderSize = 40;
inline constexpr std::size_t kUdpHeaderSize = 8;

struct IpFrame {
  static constexpr std::size_t kSizeMax = kIpv6HeaderSize + kUdpHeaderSize;

  IpAddress source{};
  IpAddress destination{};  // has the family of `source`
  std::uint16_t source_port = kRoceUdpPort;
  std::uint16_t destination_port = kRoceUdpPort;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint32_t flow_label = 0;  // IPv6, 20 bits
  std::uint16_t ip_id = 0;       // IPv4; "do not fragment" is always set

  std::size_t size() const;
  // Writes size() bytes for a datagram of `payload` bytes (BTH .. ICRC). It fills in the IPv4
  // header checksum; the UDP checksum is 0 (see set_udp_checksum).
  void write_to(std::uint8_t* out, std::size_t payload) const;
};

// Fills in the UDP checksum of a whole datagram that begins with its IP header. IPv6 requires it;
// for IPv4 it is optional.
void set_udp_checksum(std::uint8_t* datagram, std::size_t length);

// Writes the forty bytes that a UD receiver finds in front of an IPv4 message: twenty zero bytes,
// then the IP header of a datagram with `payload` UDP payload bytes (IBTA Vol 1, annex A17).
void write_ipv4_in_grh(const IpFrame& frame, std::size_t payload, std::uint8_t* out);

}  // namespace verbena::wire
