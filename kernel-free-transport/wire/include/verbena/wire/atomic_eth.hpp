// SPDX-License-Identifier: BSD-2-Clause
// The headers of the atomic operations (IBTA Vol 1, 9.3.4 and 9.5.3): the request, and the original
// value in its response.
//
//   AtomicETH                           AtomicAckETH
//   +-------+-------+-------+-------+   +-------+-------+-------+-------+
//   |        virtual address        |   |       original data           |
//   |                               |   |                               |
//   +-------------------------------+   +-------------------------------+
//   |            R_Key              |
//   +-------------------------------+
//   |     swap data or add data     |
//   |                               |
//   +-------------------------------+
//   |         compare data          |
//   |                               |
//   +-------------------------------+
#pragma once

#include <cstddef>
#include <cstdint>

#include "verbena/wire/bytes.hpp"

namespace verbena::wire {

struct AtomicEth {
  static constexpr std::size_t kSize = 28;

  std::uint64_t va = 0;
  std::uint32_t rkey = 0;
  std::uint64_t swap_or_add = 0;
  std::uint64_t compare = 0;

  static AtomicEth read_from(const std::uint8_t* at) {
    return {load_be64(at), load_be32(at + 8), load_be64(at + 12), load_be64(at + 20)};
  }
  void write_to(std::uint8_t* out) const {
    store_be64(out, va);
    store_be32(out + 8, rkey);
    store_be64(out + 12, swap_or_add);
    store_be64(out + 20, compare);
  }
  bool operator==(const AtomicEth&) const = default;
};

struct AtomicAckEth {
  static constexpr std::size_t kSize = 8;

  std::uint64_t original = 0;  // what was in memory before the operation

  static AtomicAckEth read_from(const std::uint8_t* at) { return {load_be64(at)}; }
  void write_to(std::uint8_t* out) const { store_be64(out, original); }
  bool operator==(const AtomicAckEth&) const = default;
};

}  // namespace verbena::wire
