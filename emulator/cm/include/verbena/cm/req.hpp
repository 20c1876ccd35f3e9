// SPDX-License-Identifier: BSD-2-Clause
// REQ: the request for a connection (IBTA Vol 1, 12.6.5). A plain value; `visit` is its layout.
#pragma once

#include "verbena/cm/field.hpp"

namespace verbena::cm {

// The transport that a REQ asks for in its fields service_type and extended_type.
enum class ServiceType : std::uint8_t { kRc = 0, kUc = 1, kRd = 2, kExtended = 3 };
inline constexpr std::uint8_t kExtendedXrc = 1;

// One of the two paths of a REQ, as the sender sees it: "local" is the sender's port.
struct RequestPath {
  std::uint16_t local_lid = 0;
  std::uint16_t remote_lid = 0;
  Gid local_gid;
  Gid remote_gid;
  std::uint32_t flow_label = 0;
  std::uint8_t packet_rate = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t sl = 0;
  std::uint8_t subnet_local = 0;
  std::uint8_t local_ack_timeout = 0;
  bool operator==(const RequestPath&) const = default;

  //  +0 local LID | remote LID   +4 local GID   +20 remote GID   +36 flow label:20 -:6 rate:6
  // +40 traffic class:8 hop limit:8 SL:4 subnet local:1 -:3 ack timeout:5 -:3
  template <typename Self, typename Visitor>
  static void visit(Self& m, Visitor&& v, std::uint16_t at) {
    const auto byte = [at](int n) { return static_cast<std::uint16_t>(at + n); };
    v(m.local_lid, Field{"path_local_lid", byte(0), 0, 16});
    v(m.remote_lid, Field{"path_remote_lid", byte(2), 0, 16});
    v(m.local_gid, Field{"path_local_gid", byte(4), 0, 128});
    v(m.remote_gid, Field{"path_remote_gid", byte(20), 0, 128});
    v(m.flow_label, Field{"path_flow_label", byte(36), 0, 20});
    v(m.packet_rate, Field{"path_packet_rate", byte(39), 2, 6});
    v(m.traffic_class, Field{"path_traffic_class", byte(40), 0, 8});
    v(m.hop_limit, Field{"path_hop_limit", byte(41), 0, 8});
    v(m.sl, Field{"path_sl", byte(42), 0, 4});
    v(m.subnet_local, Field{"path_subnet_local", byte(42), 4, 1});
    v(m.local_ack_timeout, Field{"path_local_ack_timeout", byte(43), 0, 5});
  }
};

struct Req {
  static constexpr std::uint16_t kAttribute = 0x0010;
  static constexpr std::size_t kPrivateData = 92;

  std::uint32_t local_comm_id = 0;
  std::uint32_t ece_vendor_id = 0;
  std::uint64_t service_id = 0;
  std::uint64_t local_ca_guid = 0;
  std::uint32_t local_qkey = 0;
  std::uint32_t local_qpn = 0;
  std::uint8_t responder_resources = 0;
  std::uint32_t local_eecn = 0;
  std::uint8_t initiator_depth = 0;
  std::uint32_t remote_eecn = 0;
  std::uint8_t remote_response_timeout = 0;  // 4.096 us * 2^n, what the sender grants the peer
  ServiceType service_type = ServiceType::kRc;
  std::uint8_t flow_control = 0;
  std::uint32_t starting_psn = 0;  // PSN with which the peer must start to send
  std::uint8_t local_response_timeout = 0;
  std::uint8_t retry_count = 0;
  std::uint16_t pkey = 0;
  std::uint8_t path_mtu = 0;
  std::uint8_t rdc_exists = 0;
  std::uint8_t rnr_retry_count = 0;
  std::uint8_t max_cm_retries = 0;
  std::uint8_t srq = 0;
  std::uint8_t extended_type = 0;
  RequestPath primary;
  RequestPath alternate;
  std::uint8_t sap_supported = 0;
  std::array<std::uint8_t, kPrivateData> private_data{};
  bool operator==(const Req&) const = default;

  //   0 local communication ID           4 -:8 ECE vendor:24      8 service ID
  //  16 local CA GUID                   28 Q_Key                 32 QPN:24 responder resources:8
  //  36 EECN:24 initiator depth:8       40 remote EECN:24 remote timeout:5 service type:2 flow:1
  //  44 starting PSN:24 timeout:5 retries:3   48 P_Key:16 MTU:4 RDC:1 RNR:3 CM retries:4 SRQ:1 XT:3
  //  52 primary path                    96 alternate path (SAP supported in its last byte)
  // 140 private data
  template <typename Self, typename Visitor>
  static void visit(Self& m, Visitor&& v) {
    v(m.local_comm_id, Field{"local_comm_id", 0, 0, 32});
    v(m.ece_vendor_id, Field{"ece_vendor_id", 5, 0, 24});
    v(m.service_id, Field{"service_id", 8, 0, 64});
    v(m.local_ca_guid, Field{"local_ca_guid", 16, 0, 64});
    v(m.local_qkey, Field{"local_qkey", 28, 0, 32});
    v(m.local_qpn, Field{"local_qpn", 32, 0, 24});
    v(m.responder_resources, Field{"responder_resources", 35, 0, 8});
    v(m.local_eecn, Field{"local_eecn", 36, 0, 24});
    v(m.initiator_depth, Field{"initiator_depth", 39, 0, 8});
    v(m.remote_eecn, Field{"remote_eecn", 40, 0, 24});
    v(m.remote_response_timeout, Field{"remote_response_timeout", 43, 0, 5});
    v(m.service_type, Field{"service_type", 43, 5, 2});
    v(m.flow_control, Field{"flow_control", 43, 7, 1});
    v(m.starting_psn, Field{"starting_psn", 44, 0, 24});
    v(m.local_response_timeout, Field{"local_response_timeout", 47, 0, 5});
    v(m.retry_count, Field{"retry_count", 47, 5, 3});
    v(m.pkey, Field{"pkey", 48, 0, 16});
    v(m.path_mtu, Field{"path_mtu", 50, 0, 4});
    v(m.rdc_exists, Field{"rdc_exists", 50, 4, 1});
    v(m.rnr_retry_count, Field{"rnr_retry_count", 50, 5, 3});
    v(m.max_cm_retries, Field{"max_cm_retries", 51, 0, 4});
    v(m.srq, Field{"srq", 51, 4, 1});
    v(m.extended_type, Field{"extended_type", 51, 5, 3});
    RequestPath::visit(m.primary, v, 52);
    RequestPath::visit(m.alternate, v, 96);
    v(m.sap_supported, Field{"sap_supported", 139, 5, 1});
    v(m.private_data, Field{"private_data", 140, 0, kPrivateData * 8});
  }
};

}  // namespace verbena::cm
