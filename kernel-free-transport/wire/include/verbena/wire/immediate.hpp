// SPDX-License-Identifier: BSD-2-Clause
// The two four-byte headers in the last packet of a message (IBTA Vol 1, 9.3.6 and 9.3.7):
// immediate data for the receiver's completion, or the key that the receiver must invalidate.
//
//   ImmDt                               IETH
//   +-------+-------+-------+-------+   +-------+-------+-------+-------+
//   |        immediate data         |   |            R_Key              |
//   +-------------------------------+   +-------------------------------+
#pragma once

#include <cstddef>
#include <cstdint>

#include "verbena/wire/bytes.hpp"

namespace verbena::wire {

struct ImmDt {
  static constexpr std::size_t kSize = 4;

  // The four bytes as the application gave them (`__be32` in verbs). They are never swapped.
  std::uint32_t data = 0;

  static ImmDt read_from(const std::uint8_t* at) { return {load_raw32(at)}; }
  void write_to(std::uint8_t* out) const { store_raw32(out, data); }
  bool operator==(const ImmDt&) const = default;
};

struct Ieth {
  static constexpr std::size_t kSize = 4;

  std::uint32_t rkey = 0;

  static Ieth read_from(const std::uint8_t* at) { return {load_be32(at)}; }
  void write_to(std::uint8_t* out) const { store_be32(out, rkey); }
  bool operator==(const Ieth&) const = default;
};

}  // namespace verbena::wire
