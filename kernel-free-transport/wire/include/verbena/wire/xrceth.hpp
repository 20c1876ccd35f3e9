// SPDX-License-Identifier: BSD-2-Clause
// The extended reliable connected header (IBTA Vol 1, annex A14): the shared receive queue that a
// request is for. It follows the BTH of every XRC request; responses have none.
//
//   +---------------+-----------------------------------------------+
//   |   reserved    |                 XRC SRQ number                |
//   +---------------+-----------------------------------------------+
#pragma once

#include <cstddef>
#include <cstdint>

#include "verbena/base/types.hpp"
#include "verbena/wire/bytes.hpp"

namespace verbena::wire {

struct XrcEth {
  static constexpr std::size_t kSize = 4;

  std::uint32_t srqn = 0;  // 24 bits

  static XrcEth read_from(const std::uint8_t* at) { return {load_low24(at)}; }
  void write_to(std::uint8_t* out) const { store_be32(out, srqn & kMask24); }
  bool operator==(const XrcEth&) const = default;
};

}  // namespace verbena::wire
