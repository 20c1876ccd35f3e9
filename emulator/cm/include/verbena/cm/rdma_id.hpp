// SPDX-License-Identifier: BSD-2-Clause
// An rdma_cm_id: what its program has made of it, and what is known of its peer. A plain value.
//
//   idle -bind-> bound -listen-> listening
//   bound -resolve_addr-> [address_query] -> address_resolved -resolve_route-> route_resolved
//   route_resolved -connect-> connecting
//   (request) -> connecting -accept->           connecting -disconnected-> disconnected
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "verbena/cm/event.hpp"
#include "verbena/cm/ip_header.hpp"
#include "verbena/cm/rdma_types.hpp"
#include "verbena/cm/sockaddr.hpp"

namespace verbena::cm {

enum class IdState : std::uint8_t {
  kIdle,
  kBound,
  kAddressQuery,  // a neighbour has not answered yet
  kAddressResolved,
  kRouteResolved,
  kListening,
  kConnecting,  // or connected: the agent knows which
  kDisconnected,
};

struct RdmaId {
  IdHandle handle = 0;
  ChannelId channel = 0;
  std::uint64_t uid = 0;  // 0: a request that the program has not accepted yet
  PortSpace space = PortSpace::kTcp;
  QpType qp_type = QpType::kRc;
  IdState state = IdState::kIdle;
  SocketAddress source;
  SocketAddress destination;
  std::optional<DeviceId> device;
  IpAddress peer;  // address of the remote port
  std::uint32_t backlog = 0;
  std::uint32_t events_reported = 0;
  CommId comm = 0;
  std::uint32_t starting_psn = 0;
  std::uint32_t qp_num = 0;
  std::uint32_t qkey = 0;
  bool is_accepted = false;  // for UD: the program or the peer has accepted
  bool has_failed = false;   // the program is told that its connection did not come about
  bool srq = false;
  bool holds_port = false;
  bool reuse_address = false;
  bool family_only = false;
  bool family_only_set = false;
  std::uint8_t tos = 0;
  std::optional<std::uint8_t> ack_timeout;
  std::vector<std::uint32_t> memberships;
  std::unique_ptr<RdmaEvent> missed;  // first event that came while `uid` was 0

  void take_queue_pair(std::uint32_t number, bool has_srq) {
    qp_num = number;
    srq = has_srq;
  }
  bool is_ud() const { return qp_type == QpType::kUd; }
  bool is_addressed() const {
    return destination.is_set() && state != IdState::kBound && state != IdState::kAddressQuery;
  }
  // Returns the queue key that was agreed on, or until then that of the port space.
  std::uint32_t qkey_in_use() const {
    if (qkey != 0) return qkey;
    return space == PortSpace::kIpoib ? kIpoibQkey : kUdpQkey;
  }
};

}  // namespace verbena::cm
