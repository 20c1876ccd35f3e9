// The datagram header of UD packets (IBTA Vol 1, 9.3.2): the key that admits, and who sent it.
//
//   +---------------------------------------------------------------+
//   |                             Q_Key                             |
//   +---------------+-----------------------------------------------+
//   |   reserved    |                   source QP                   |
//   +---------------+-----------------------------------------------+
#pragma once

#include <cstddef>
#include <cstdint>

#include "verbena/base/types.hpp"
#include "verbena/wire/bytes.hpp"

namespace verbena::wire {

struct Deth {
  static constexpr std::size_t kSize = 8;

  std::uint32_t qkey = 0;
  Qpn source_qp{};

  static Deth read_from(const std::uint8_t* at) { return {load_be32(at), Qpn(load_low24(at + 4))}; }
  void write_to(std::uint8_t* out) const {
    store_be32(out, qkey);
    store_be32(out + 4, source_qp.value());
  }
  bool operator==(const Deth&) const = default;
};

}  // namespace verbena::wire
