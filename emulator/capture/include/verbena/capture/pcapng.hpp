// SPDX-License-Identifier: BSD-2-Clause
// Appends the blocks of a pcapng file to a buffer, in the machine's byte order (the section header
// says which).
//
//   section header        | type | length | magic | 1.0 | section length -1 (unknown) | options |
//                         | length |
//   interface description | type | length | link type, 0 | snap length | options | length |
//   enhanced packet       | type | length | interface | time (2 words) | captured | original |
//                         | bytes, padded | options | length |
//   interface statistics  | type | length | interface | time (2 words) | options | length |
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "verbena/base/types.hpp"
#include "verbena/link/capture_ring.hpp"

namespace verbena::capture {

class Pcapng {
 public:
  explicit Pcapng(std::vector<std::uint8_t>& out) : out_(out) {}

  void begin_section(std::string_view application);
  // Adds an interface. Interfaces of a section are numbered from 0, in this order. Packets begin
  // with their IP header; times are in nanoseconds.
  void add_interface(std::string_view name, std::string_view description);

  struct Packet {
    std::uint32_t interface = 0;
    TimeNs time = 0;  // nanoseconds since 1970
    std::span<const std::uint8_t> bytes;
    std::size_t length = 0;  // before it was cut
    link::CaptureRecord::Direction direction{};
    std::string_view comment;  // empty: none
  };
  void add_packet(const Packet& packet);

  struct Statistics {
    std::uint32_t interface = 0;
    TimeNs begin = 0;
    TimeNs end = 0;
    std::uint64_t received = 0;
    std::uint64_t dropped = 0;  // part of `received`
  };
  static constexpr std::size_t kStatisticsBytes = 76;
  void add_statistics(const Statistics& statistics);

 private:
  template <typename T>
  void put(T value);
  void put_time(TimeNs time);
  void put_bytes(const void* bytes, std::size_t size);
  void put_option(std::uint16_t code, const void* bytes, std::size_t size);
  void put_text(std::uint16_t code, std::string_view text);
  void begin_block(std::uint32_t type);
  void end_block();

  std::vector<std::uint8_t>& out_;
  std::size_t block_begins_at_ = 0;
};

// Returns the interface number of each packet in these blocks.
std::vector<std::uint32_t> interfaces_of_packets(std::span<const std::uint8_t> blocks);

// Returns how many of the first `size` bytes of `blocks` are whole blocks. `blocks` begins with a
// block. A file that cannot be written further is cut there.
std::size_t whole_blocks(std::span<const std::uint8_t> blocks, std::size_t size);

}  // namespace verbena::capture
