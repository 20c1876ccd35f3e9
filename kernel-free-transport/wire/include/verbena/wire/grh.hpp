// SPDX-License-Identifier: BSD-2-Clause
// The global route header, forty bytes (IBTA Vol 1, 8.3). RoCEv2 does not transmit it: a UD
// receiver finds it in front of its message, made from the transmitted IP header. For IPv6 and
// InfiniBand GIDs it holds 16-byte source and destination addresses. For IPv4 the last twenty bytes
// are the IP header and the first twenty carry nothing (annex A17).
//
//   +-------+---------------+---------------------------------------+
//   | ver 6 | traffic class |              flow label               |
//   +-------+---------------+---------------+-----------------------+
//   |        payload length         |  next header  |   hop limit   |
//   +-------------------------------+---------------+---------------+
//   |                    source GID (16 bytes)                      |
//   |                  destination GID (16 bytes)                   |
//   +---------------------------------------------------------------+
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "verbena/base/address.hpp"
#include "verbena/wire/bytes.hpp"

namespace verbena::wire {

struct Grh {
  static constexpr std::size_t kSize = 40;
  static constexpr std::uint8_t kNextHeaderBth = 0x1b;
  static constexpr std::uint8_t kNextHeaderUdp = 17;

  std::uint8_t version = 6;
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;  // 20 bits
  std::uint16_t payload_length = 0;
  std::uint8_t next_header = kNextHeaderBth;
  std::uint8_t hop_limit = 0;
  Gid source{};
  Gid destination{};

  static Grh read_from(const std::uint8_t* at) {
    Grh grh;
    const std::uint32_t word = load_be32(at);
    grh.version = static_cast<std::uint8_t>(word >> 28);
    grh.take_first_word(word);
    grh.payload_length = load_be16(at + 4);
    grh.next_header = at[6];
    grh.hop_limit = at[7];
    std::memcpy(grh.source.bytes.data(), at + 8, 16);
    std::memcpy(grh.destination.bytes.data(), at + 24, 16);
    return grh;
  }
  // Takes traffic class and flow label from the first word of a GRH and ignores its version.
  void take_first_word(std::uint32_t word) {
    traffic_class = static_cast<std::uint8_t>(word >> 20);
    flow_label = word & 0xfffff;
  }
  static void write_first_word(std::uint8_t* out, std::uint8_t traffic_class,
                               std::uint32_t flow_label, std::uint8_t version = 6) {
    store_be32(out, std::uint32_t{version} << 28 | std::uint32_t{traffic_class} << 20 |
                        (flow_label & 0xfffff));
  }
  void write_to(std::uint8_t* out) const {
    write_first_word(out, traffic_class, flow_label, version);
    store_be16(out + 4, payload_length);
    out[6] = next_header;
    out[7] = hop_limit;
    std::memcpy(out + 8, source.bytes.data(), 16);
    std::memcpy(out + 24, destination.bytes.data(), 16);
  }
  bool operator==(const Grh&) const = default;
};

}  // namespace verbena::wire
