// SPDX-License-Identifier: BSD-2-Clause
// One packet of every opcode, with a different value in every field. The golden tests use them, the
// witness that other programs judge, and the first corpus of the fuzzers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "verbena/wire/ip_frame.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::golden {

struct GoldenPacket {
  std::string name;
  std::uint8_t opcode = 0;
  wire::PacketHeaders headers;
  std::vector<std::uint8_t> payload;
  std::vector<std::uint8_t> bytes;  // BTH .. pad
};

// Returns every valid opcode once, and the ACK once for each kind of syndrome. Always the same.
std::vector<GoldenPacket> golden_packets();

// Returns the frame of packet `index`. These take turns: IPv4 from an unconnected socket
// (identification 0), IPv4 with an identification of its own, and IPv6.
wire::IpFrame golden_frame(std::size_t index);

// Returns IP header, UDP header, packet and ICRC, with checksums.
std::vector<std::uint8_t> golden_datagram(const GoldenPacket& packet, const wire::IpFrame& frame);

std::string to_hex(const std::vector<std::uint8_t>& bytes);
std::vector<std::uint8_t> from_hex(const std::string& text);

}  // namespace verbena::golden
