// SPDX-License-Identifier: BSD-2-Clause
// The RDMA extended transport header (IBTA Vol 1, 9.3.3): the range of the peer's memory that a
// write, a read, a flush or an atomic write is for.
//
//   +-------+-------+-------+-------+
//   |        virtual address        |
//   |                               |
//   +-------------------------------+
//   |            R_Key              |
//   +-------------------------------+
//   |          DMA length           |
//   +-------------------------------+
#pragma once

#include <cstddef>
#include <cstdint>

#include "verbena/wire/bytes.hpp"

namespace verbena::wire {

struct Reth {
  static constexpr std::size_t kSize = 16;

  std::uint64_t va = 0;
  std::uint32_t rkey = 0;
  std::uint32_t length = 0;  // length of the whole message, in bytes

  static Reth read_from(const std::uint8_t* at) {
    return {load_be64(at), load_be32(at + 8), load_be32(at + 12)};
  }
  void write_to(std::uint8_t* out) const {
    store_be64(out, va);
    store_be32(out + 8, rkey);
    store_be32(out + 12, length);
  }
  bool operator==(const Reth&) const = default;
};

}  // namespace verbena::wire
