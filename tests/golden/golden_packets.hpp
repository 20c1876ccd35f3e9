// SPDX-License-Identifier: BSD-2-Clause
// One packet of every opcode, with every field at a value of its own: the common matter of the
// golden tests, of the witness that other programs judge, and of the fuzzers' first corpus.
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

// Every valid row once, and the acknowledge once per kind of syndrome. Always the same.
std::vector<GoldenPacket> golden_packets();

// The frame that packet `index` travels under: IPv4 from an unconnected socket (identification 0),
// IPv4 with an identification of its own, IPv6, in turn.
wire::IpFrame golden_frame(std::size_t index);

// IP header, UDP header, packet, ICRC; checksums filled in.
std::vector<std::uint8_t> golden_datagram(const GoldenPacket& packet, const wire::IpFrame& frame);

std::string to_hex(const std::vector<std::uint8_t>& bytes);
std::vector<std::uint8_t> from_hex(const std::string& text);

}  // namespace verbena::golden
