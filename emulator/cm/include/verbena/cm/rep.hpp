// SPDX-License-Identifier: BSD-2-Clause
// REP answers a REQ, and RTU confirms the REP (IBTA Vol 1, 12.6.8 and 12.6.9).
#pragma once

#include "verbena/cm/field.hpp"

namespace verbena::cm {

// A REP refuses the alternate path of the REQ with this value; 0: it is loaded.
inline constexpr std::uint8_t kFailoverUnsupported = 1;

struct Rep {
  static constexpr std::uint16_t kAttribute = 0x0013;
  static constexpr std::size_t kPrivateData = 196;

  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  std::uint32_t local_qkey = 0;
  std::uint32_t local_qpn = 0;
  std::uint8_t ece_vendor_high = 0;
  std::uint32_t local_eecn = 0;
  std::uint8_t ece_vendor_middle = 0;
  std::uint32_t starting_psn = 0;
  std::uint8_t ece_vendor_low = 0;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t target_ack_delay = 0;
  std::uint8_t failover_accepted = 0;
  std::uint8_t flow_control = 0;
  std::uint8_t rnr_retry_count = 0;
  std::uint8_t srq = 0;
  std::uint64_t local_ca_guid = 0;
  std::array<std::uint8_t, kPrivateData> private_data{};
  bool operator==(const Rep&) const = default;

  std::uint32_t ece_vendor_id() const {
    return std::uint32_t{ece_vendor_high} << 16 | std::uint32_t{ece_vendor_middle} << 8 |
           ece_vendor_low;
  }
  void set_ece_vendor_id(std::uint32_t id) {
    ece_vendor_high = static_cast<std::uint8_t>(id >> 16);
    ece_vendor_middle = static_cast<std::uint8_t>(id >> 8);
    ece_vendor_low = static_cast<std::uint8_t>(id);
  }

  //  0 local communication ID    4 remote communication ID    8 Q_Key
  // 12 QPN:24 ECE vendor high:8  16 EECN:24 ECE middle:8     20 starting PSN:24 ECE low:8
  // 24 responder resources:8 initiator depth:8 ack delay:5 failover:2 flow:1 RNR:3 SRQ:1 -:4
  // 28 local CA GUID            36 private data
  template <typename Self, typename Visitor>
  static void visit(Self& m, Visitor&& v) {
    v(m.local_comm_id, Field{"local_comm_id", 0, 0, 32});
    v(m.remote_comm_id, Field{"remote_comm_id", 4, 0, 32});
    v(m.local_qkey, Field{"local_qkey", 8, 0, 32});
    v(m.local_qpn, Field{"local_qpn", 12, 0, 24});
    v(m.ece_vendor_high, Field{"ece_vendor_high", 15, 0, 8});
    v(m.local_eecn, Field{"local_eecn", 16, 0, 24});
    v(m.ece_vendor_middle, Field{"ece_vendor_middle", 19, 0, 8});
    v(m.starting_psn, Field{"starting_psn", 20, 0, 24});
    v(m.ece_vendor_low, Field{"ece_vendor_low", 23, 0, 8});
    v(m.responder_resources, Field{"responder_resources", 24, 0, 8});
    v(m.initiator_depth, Field{"initiator_depth", 25, 0, 8});
    v(m.target_ack_delay, Field{"target_ack_delay", 26, 0, 5});
    v(m.failover_accepted, Field{"failover_accepted", 26, 5, 2});
    v(m.flow_control, Field{"flow_control", 26, 7, 1});
    v(m.rnr_retry_count, Field{"rnr_retry_count", 27, 0, 3});
    v(m.srq, Field{"srq", 27, 3, 1});
    v(m.local_ca_guid, Field{"local_ca_guid", 28, 0, 64});
    v(m.private_data, Field{"private_data", 36, 0, kPrivateData * 8});
  }
};

struct Rtu {
  static constexpr std::uint16_t kAttribute = 0x0014;
  static constexpr std::size_t kPrivateData = 224;

  std::uint32_t local_comm_id = 0;
  std::uint32_t remote_comm_id = 0;
  std::array<std::uint8_t, kPrivateData> private_data{};
  bool operator==(const Rtu&) const = default;

  // 0 local communication ID    4 remote communication ID    8 private data
  template <typename Self, typename Visitor>
  static void visit(Self& m, Visitor&& v) {
    v(m.local_comm_id, Field{"local_comm_id", 0, 0, 32});
    v(m.remote_comm_id, Field{"remote_comm_id", 4, 0, 32});
    v(m.private_data, Field{"private_data", 8, 0, kPrivateData * 8});
  }
};

}  // namespace verbena::cm
