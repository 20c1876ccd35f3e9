// SPDX-License-Identifier: BSD-2-Clause
// The plain values of the rdma_cm layer: what its calls take and its events carry, free of the
// layout of any ABI. Numbers that a program can see are those of the Linux user ABI.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "verbena/cm/ip_header.hpp"
#include "verbena/cm/ports.hpp"

namespace verbena::cm {

using ChannelId = std::uint64_t;  // one opened event channel
using IdHandle = std::uint32_t;   // one rdma_cm_id; 0 is none

enum class QpType : std::uint8_t {
  kNone = 0,
  kRc = 2,
  kUc = 3,
  kUd = 4,
  kXrcSend = 9,
  kXrcRecv = 10
};

enum class RdmaEventType : std::uint32_t {
  kAddrResolved = 0,
  kAddrError = 1,
  kRouteResolved = 2,
  kRouteError = 3,
  kConnectRequest = 4,
  kConnectResponse = 5,
  kConnectError = 6,
  kUnreachable = 7,
  kRejected = 8,
  kEstablished = 9,
  kDisconnected = 10,
  kDeviceRemoval = 11,
  kMulticastJoin = 12,
  kMulticastError = 13,
  kAddrChange = 14,
  kTimewaitExit = 15,
  kServiceResolved = 16,
  kServiceError = 17,
  kUser = 18,      // made by the program
  kInternal = 19,  // made by its library
};

inline constexpr std::uint32_t kUdpQkey = 0x01234567;  // queue key of RDMA_PS_UDP, by convention
inline constexpr std::uint32_t kIpoibQkey = 0x00000b1b;

// Up to 255 bytes of the user's private data.
struct PrivateData {
  static constexpr std::uint8_t kMax = 255;

  std::array<std::uint8_t, 256> bytes{};
  std::uint8_t size = 0;

  std::span<const std::uint8_t> view() const { return std::span(bytes).first(size); }
  void assign(std::span<const std::uint8_t> from) {
    size = static_cast<std::uint8_t>(std::min<std::size_t>(from.size(), kMax));
    std::copy_n(from.begin(), size, bytes.begin());
  }
};

struct ConnParam {
  std::uint32_t qp_num = 0;
  std::uint32_t qkey = 0;
  PrivateData private_data;
  bool srq = false;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t flow_control = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry_count = 0;
};

struct Ece {
  std::uint32_t vendor_id = 0;
  std::uint32_t option = 0;
};

struct AhAttr {
  Gid dgid;
  std::uint32_t flow_label = 0;
  std::uint8_t sgid_index = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
  std::uint16_t dlid = 0;
  std::uint8_t sl = 0;
  std::uint8_t static_rate = 0;
  bool is_global = false;
  std::uint8_t port_num = 1;
};

struct UdParam {
  std::uint32_t qp_num = 0;
  std::uint32_t qkey = 0;
  AhAttr ah;
  PrivateData private_data;
};

struct RdmaEvent {
  std::uint64_t uid = 0;
  std::uint32_t id = 0;  // what the program is told: an ID, or a multicast membership
  RdmaEventType type = RdmaEventType::kAddrResolved;
  std::int32_t status = 0;
  std::variant<ConnParam, UdParam> param;
  std::uint64_t argument = 0;  // replaces `param` in kUser and kInternal
  Ece ece;
  // The ID and the membership whose events_reported this counts in.
  IdHandle owner = 0;
  std::uint32_t membership = 0;
  IdHandle request = 0;  // the new ID that a CONNECT_REQUEST brings
};

// States of a queue pair, numbered as in ibv_qp_state.
enum : std::uint32_t { kQpInit = 1, kQpReadyToReceive = 2, kQpReadyToSend = 3 };

// The bits of ibv_qp_attr_mask that INIT_QP_ATTR sets.
enum QpAttrMask : std::uint32_t {
  kMaskState = 1u << 0,
  kMaskAccessFlags = 1u << 3,
  kMaskPkeyIndex = 1u << 4,
  kMaskPort = 1u << 5,
  kMaskQkey = 1u << 6,
  kMaskAv = 1u << 7,
  kMaskPathMtu = 1u << 8,
  kMaskTimeout = 1u << 9,
  kMaskRetryCount = 1u << 10,
  kMaskRnrRetry = 1u << 11,
  kMaskRqPsn = 1u << 12,
  kMaskMaxRdAtomic = 1u << 13,
  kMaskMinRnrTimer = 1u << 15,
  kMaskSqPsn = 1u << 16,
  kMaskMaxDestRdAtomic = 1u << 17,
  kMaskDestQpn = 1u << 20,
};

struct QpAttr {
  std::uint32_t mask = 0;
  std::uint32_t qp_state = 0;
  std::uint32_t path_mtu = 0;
  std::uint32_t qkey = 0;
  std::uint32_t rq_psn = 0;
  std::uint32_t sq_psn = 0;
  std::uint32_t dest_qp_num = 0;
  std::uint32_t access_flags = 0;
  AhAttr ah;
  std::uint16_t pkey_index = 0;
  std::uint8_t max_rd_atomic = 0;
  std::uint8_t max_dest_rd_atomic = 0;
  std::uint8_t min_rnr_timer = 0;
  std::uint8_t port_num = 1;
  std::uint8_t timeout = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry = 0;
};

struct PathRecord {
  Gid dgid;
  Gid sgid;
  std::uint16_t dlid = 0;
  std::uint16_t slid = 0;
  std::uint32_t flow_label = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
  std::uint16_t pkey = 0xffff;
  std::uint8_t sl = 0;
  std::uint8_t mtu = 0;
  std::uint8_t rate = 0;
  std::uint8_t packet_life_time = 0;
};

// What QUERY and QUERY_ROUTE tell about an ID.
struct RouteInfo {
  const PortInfo* port = nullptr;  // null while no device is chosen
  SocketAddress source;
  SocketAddress destination;
  bool has_path = false;
  PathRecord path;
  std::uint64_t source_service = 0;
  std::uint64_t destination_service = 0;
};

}  // namespace verbena::cm
