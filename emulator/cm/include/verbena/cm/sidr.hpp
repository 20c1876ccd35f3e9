// SPDX-License-Identifier: BSD-2-Clause
// SIDR_REQ asks which datagram queue pair serves a service ID, and SIDR_REP answers it
// (IBTA Vol 1, 12.11).
#pragma once

#include "verbena/cm/field.hpp"

namespace verbena::cm {

enum class SidrStatus : std::uint8_t {
  kSuccess = 0,
  kUnsupported = 1,
  kReject = 2,
  kNoQp = 3,
  kRedirect = 4,
  kUnsupportedVersion = 5,
};

struct SidrReq {
  static constexpr std::uint16_t kAttribute = 0x0017;
  static constexpr std::size_t kPrivateData = 216;

  std::uint32_t request_id = 0;
  std::uint16_t pkey = 0;
  std::uint64_t service_id = 0;
  std::array<std::uint8_t, kPrivateData> private_data{};
  bool operator==(const SidrReq&) const = default;

  // 0 request ID    4 P_Key:16 -:16    8 service ID    16 private data
  template <typename Self, typename Visitor>
  static void visit(Self& m, Visitor&& v) {
    v(m.request_id, Field{"request_id", 0, 0, 32});
    v(m.pkey, Field{"pkey", 4, 0, 16});
    v(m.service_id, Field{"service_id", 8, 0, 64});
    v(m.private_data, Field{"private_data", 16, 0, kPrivateData * 8});
  }
};

struct SidrRep {
  static constexpr std::uint16_t kAttribute = 0x0018;
  static constexpr std::size_t kInfo = 72;
  static constexpr std::size_t kPrivateData = 136;

  std::uint32_t request_id = 0;
  SidrStatus status = SidrStatus::kSuccess;
  std::uint8_t info_length = 0;
  std::uint16_t ece_vendor_high = 0;
  std::uint32_t qpn = 0;
  std::uint8_t ece_vendor_low = 0;
  std::uint64_t service_id = 0;
  std::uint32_t qkey = 0;
  std::array<std::uint8_t, kInfo> info{};
  std::array<std::uint8_t, kPrivateData> private_data{};
  bool operator==(const SidrRep&) const = default;

  // 0 request ID    4 status:8 info length:8 ECE vendor high:16    8 QPN:24 ECE vendor low:8
  // 12 service ID    20 Q_Key    24 additional information    96 private data
  template <typename Self, typename Visitor>
  static void visit(Self& m, Visitor&& v) {
    v(m.request_id, Field{"request_id", 0, 0, 32});
    v(m.status, Field{"status", 4, 0, 8});
    v(m.info_length, Field{"info_length", 5, 0, 8});
    v(m.ece_vendor_high, Field{"ece_vendor_high", 6, 0, 16});
    v(m.qpn, Field{"qpn", 8, 0, 24});
    v(m.ece_vendor_low, Field{"ece_vendor_low", 11, 0, 8});
    v(m.service_id, Field{"service_id", 12, 0, 64});
    v(m.qkey, Field{"qkey", 20, 0, 32});
    v(m.info, Field{"info", 24, 0, kInfo * 8});
    v(m.private_data, Field{"private_data", 96, 0, kPrivateData * 8});
  }
};

}  // namespace verbena::cm
