// SPDX-License-Identifier: BSD-2-Clause
// DREQ and DREP end a connection (IBTA Vol 1, 12.6.10 and 12.6.11).
#pragma once

#include "verbena/cm/field.hpp"

namespace verbena::cm {

struct Dreq {
  static constexpr std::uint16_t kAttribute = 0x0015;
  static constexpr std::size_t kPrivateData = 220;

  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  std::uint32_t remote_qpn = 0;  // the receiver's queue pair
  std::array<std::uint8_t, kPrivateData> private_data{};
  bool operator==(const Dreq&) const = default;

  // 0 local communication ID    4 remote communication ID    8 remote QPN:24 -:8    12 data
  template <typename Self, typename Visitor>
  static void visit(Self& m, Visitor&& v) {
    v(m.local_comm_id, Field{"local_comm_id", 0, 0, 32});
    v(m.remote_comm_id, Field{"remote_comm_id", 4, 0, 32});
    v(m.remote_qpn, Field{"remote_qpn", 8, 0, 24});
    v(m.private_data, Field{"private_data", 12, 0, kPrivateData * 8});
  }
};

struct Drep {
  static constexpr std::uint16_t kAttribute = 0x0016;
  static constexpr std::size_t kPrivateData = 224;

  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  std::array<std::uint8_t, kPrivateData> private_data{};
  bool operator==(const Drep&) const = default;

  // 0 local communication ID    4 remote communication ID    8 private data
  template <typename Self, typename Visitor>
  static void visit(Self& m, Visitor&& v) {
    v(m.local_comm_id, Field{"local_comm_id", 0, 0, 32});
    v(m.remote_comm_id, Field{"remote_comm_id", 4, 0, 32});
    v(m.private_data, Field{"private_data", 8, 0, kPrivateData * 8});
  }
};

}  // namespace verbena::cm
