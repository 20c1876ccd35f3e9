// SPDX-License-Identifier: BSD-2-Clause
// MRA asks the peer to wait, and REJ refuses (IBTA Vol 1, 12.6.6 and 12.6.7).
#pragma once

#include "verbena/cm/field.hpp"

namespace verbena::cm {

// The message that an MRA or a REJ answers.
enum class Answered : std::uint8_t { kReq = 0, kRep = 1, kOther = 2, kNone = 3 };

// The reasons of IBTA Vol 1, 12.6.7.2 that Verbena sends or distinguishes. Others pass unchanged.
enum class RejectReason : std::uint16_t {
  kNoQp = 1,
  kNoResources = 3,
  kTimeout = 4,
  kUnsupported = 5,
  kInvalidCommId = 6,
  kInvalidServiceId = 8,
  kInvalidServiceType = 9,
  kStaleConnection = 10,
  kInvalidMtu = 26,
  kConsumerDefined = 28,
  kDuplicateLocalCommId = 30,
  kVendorOptionUnsupported = 35,
};

struct Mra {
  static constexpr std::uint16_t kAttribute = 0x0011;
  static constexpr std::size_t kPrivateData = 222;

  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  Answered answered = Answered::kReq;
  std::uint8_t service_timeout = 0;  // 4.096 us * 2^n
  std::array<std::uint8_t, kPrivateData> private_data{};
  bool operator==(const Mra&) const = default;

  // 0 local communication ID  4 remote communication ID  8 message:2 -:6 timeout:5 -:3  10 data
  template <typename Self, typename Visitor>
  static void visit(Self& m, Visitor&& v) {
    v(m.local_comm_id, Field{"local_comm_id", 0, 0, 32});
    v(m.remote_comm_id, Field{"remote_comm_id", 4, 0, 32});
    v(m.answered, Field{"answered", 8, 0, 2});
    v(m.service_timeout, Field{"service_timeout", 9, 0, 5});
    v(m.private_data, Field{"private_data", 10, 0, kPrivateData * 8});
  }
};

struct Rej {
  static constexpr std::uint16_t kAttribute = 0x0012;
  static constexpr std::size_t kInfo = 72;
  static constexpr std::size_t kPrivateData = 148;

  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  Answered answered = Answered::kReq;
  std::uint8_t info_length = 0;
  RejectReason reason = RejectReason::kConsumerDefined;
  std::array<std::uint8_t, kInfo> info{};
  std::array<std::uint8_t, kPrivateData> private_data{};
  bool operator==(const Rej&) const = default;

  // 0 local communication ID  4 remote communication ID  8 message:2 -:6 info length:7 -:1
  // reason:16 12 additional reject information  84 private data
  template <typename Self, typename Visitor>
  static void visit(Self& m, Visitor&& v) {
    v(m.local_comm_id, Field{"local_comm_id", 0, 0, 32});
    v(m.remote_comm_id, Field{"remote_comm_id", 4, 0, 32});
    v(m.answered, Field{"answered", 8, 0, 2});
    v(m.info_length, Field{"info_length", 9, 0, 7});
    v(m.reason, Field{"reason", 10, 0, 16});
    v(m.info, Field{"info", 12, 0, kInfo * 8});
    v(m.private_data, Field{"private_data", 84, 0, kPrivateData * 8});
  }
};

}  // namespace verbena::cm
