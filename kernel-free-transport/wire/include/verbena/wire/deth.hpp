// SPDX-License-Identifier: BSD-2-Clause
// The datagram header of UD packets (IBTA Vol 1, 9.3.2): the key that admits the packet, and its
// sender.
//
//   +---------------------------------------------------------------+
//   |                             Q_Key                             |
//   +---------------+-----------------------------------------------+
//   |   reserved    |                   source QP                   |
//   +---------------+-----------------------------------------------+
//
// The reserved byte is 0 on RoCE devices. InfiniBand devices, which exist only in this emulator,
// store there what InfiniBand has in headers that RoCEv2 lacks:
//
//   +-------+-----------+
//   |W| 0   |  service  |   W: the payload begins with the first word of the GRH (version, traffic
//   +-------+-----------+   class, flow label); the receiver moves it into the GRH
#pragma once

#include <cstddef>
#include <cstdint>

#include "verbena/base/types.hpp"
#include "verbena/wire/bytes.hpp"

namespace verbena::wire {

struct Deth {
  static constexpr std::size_t kSize = 8;
  static constexpr std::uint8_t kServiceLevel = 0x0f;
  static constexpr std::uint8_t kGrhWord = 0x80;
  static constexpr std::size_t kGrhWordSize = 4;

  std::uint32_t qkey = 0;
  Qpn source_qp{};
  std::uint8_t reserved = 0;

  static Deth read_from(const std::uint8_t* at) {
    return {load_be32(at), Qpn(load_low24(at + 4)), at[4]};
  }
  void write_to(std::uint8_t* out) const {
    store_be32(out, qkey);
    store_be32(out + 4, std::uint32_t{reserved} << 24 | source_qp.value());
  }
  bool operator==(const Deth&) const = default;
};

}  // namespace verbena::wire
