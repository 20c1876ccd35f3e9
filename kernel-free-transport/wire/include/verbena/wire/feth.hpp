// SPDX-License-Identifier: BSD-2-Clause
// The flush header (IBTA Vol 1, annex A19): how far written data must have come, and which part of
// the region is meant. It precedes the RETH, which names the range.
//
//   +---------------------------------------------------+---+-------+
//   |                   reserved                        |sel|  type |
//   +---------------------------------------------------+---+-------+
#pragma once

#include <cstddef>
#include <cstdint>

#include "verbena/wire/bytes.hpp"

namespace verbena::wire {

// Bits of placement_type. Both may be set.
inline constexpr std::uint8_t kFlushGlobalVisibility = 1;
inline constexpr std::uint8_t kFlushPersistence = 2;

enum class FlushSelectivity : std::uint8_t { kRange = 0, kWholeRegion = 1 };

struct Feth {
  static constexpr std::size_t kSize = 4;

  std::uint8_t placement_type = 0;  // 4 bits: kFlush...
  std::uint8_t selectivity = 0;     // 2 bits: FlushSelectivity, 2 and 3 reserved

  static Feth read_from(const std::uint8_t* at) {
    const std::uint32_t word = load_be32(at);
    return {static_cast<std::uint8_t>(word & 0xf), static_cast<std::uint8_t>(word >> 4 & 3)};
  }
  void write_to(std::uint8_t* out) const {
    store_be32(out, (selectivity & 3u) << 4 | (placement_type & 0xfu));
  }
  bool operator==(const Feth&) const = default;
};

}  // namespace verbena::wire
