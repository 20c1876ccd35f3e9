// SPDX-License-Identifier: BSD-2-Clause
// LAP loads an alternate path into a live connection, and APR answers it (IBTA Vol 1, 12.6.12).
#pragma once

#include "verbena/cm/field.hpp"

namespace verbena::cm {

struct Lap {
  static constexpr std::uint16_t kAttribute = 0x0019;
  static constexpr std::size_t kPrivateData = 168;

  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  std::uint32_t remote_qpn = 0;
  std::uint8_t remote_response_timeout = 0;
  std::uint16_t local_lid = 0;
  std::uint16_t remote_lid = 0;
  Gid local_gid;
  Gid remote_gid;
  std::uint32_t flow_label = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t packet_rate = 0;
  std::uint8_t sl = 0;
  std::uint8_t subnet_local = 0;
  std::uint8_t local_ack_timeout = 0;
  std::array<std::uint8_t, kPrivateData> private_data{};
  bool operator==(const Lap&) const = default;

  //  0 local communication ID    4 remote communication ID    12 remote QPN:24 timeout:5 -:3
  // 20 local LID | remote LID   24 local GID   40 remote GID   56 flow label:20 -:4 class:8
  // 60 hop limit:8 -:2 rate:6 SL:4 subnet local:1 -:3 ack timeout:5 -:3   64 private data
  template <typename Self, typename Visitor>
  static void visit(Self& m, Visitor&& v) {
    v(m.local_comm_id, Field{"local_comm_id", 0, 0, 32});
    v(m.remote_comm_id, Field{"remote_comm_id", 4, 0, 32});
    v(m.remote_qpn, Field{"remote_qpn", 12, 0, 24});
    v(m.remote_response_timeout, Field{"remote_response_timeout", 15, 0, 5});
    v(m.local_lid, Field{"local_lid", 20, 0, 16});
    v(m.remote_lid, Field{"remote_lid", 22, 0, 16});
    v(m.local_gid, Field{"local_gid", 24, 0, 128});
    v(m.remote_gid, Field{"remote_gid", 40, 0, 128});
    v(m.flow_label, Field{"flow_label", 56, 0, 20});
    v(m.traffic_class, Field{"traffic_class", 59, 0, 8});
    v(m.hop_limit, Field{"hop_limit", 60, 0, 8});
    v(m.packet_rate, Field{"packet_rate", 61, 2, 6});
    v(m.sl, Field{"sl", 62, 0, 4});
    v(m.subnet_local, Field{"subnet_local", 62, 4, 1});
    v(m.local_ack_timeout, Field{"local_ack_timeout", 63, 0, 5});
    v(m.private_data, Field{"private_data", 64, 0, kPrivateData * 8});
  }
};

// The answers that Verbena gives to a LAP (IBTA Vol 1, 12.6.13.1).
enum class AlternatePathStatus : std::uint8_t {
  kLoaded = 0,
  kInvalidCommId = 1,
  kUnsupported = 2,
  kInvalidQpn = 6,
};

struct Apr {
  static constexpr std::uint16_t kAttribute = 0x001a;
  static constexpr std::size_t kInfo = 72;
  static constexpr std::size_t kPrivateData = 148;

  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  std::uint8_t info_length = 0;
  AlternatePathStatus status = AlternatePathStatus::kLoaded;
  std::array<std::uint8_t, kInfo> info{};
  std::array<std::uint8_t, kPrivateData> private_data{};
  bool operator==(const Apr&) const = default;

  // 0 local communication ID    4 remote communication ID    8 info length:8 status:8 -:16
  // 12 additional information    84 private data
  template <typename Self, typename Visitor>
  static void visit(Self& m, Visitor&& v) {
    v(m.local_comm_id, Field{"local_comm_id", 0, 0, 32});
    v(m.remote_comm_id, Field{"remote_comm_id", 4, 0, 32});
    v(m.info_length, Field{"info_length", 8, 0, 8});
    v(m.status, Field{"status", 9, 0, 8});
    v(m.info, Field{"info", 12, 0, kInfo * 8});
    v(m.private_data, Field{"private_data", 84, 0, kPrivateData * 8});
  }
};

}  // namespace verbena::cm
