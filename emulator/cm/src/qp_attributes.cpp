// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm/qp_attributes.hpp"

#include "verbena/cm/multicast.hpp"

namespace verbena::cm {
namespace {

constexpr std::uint8_t kRate = 16;  // 100 Gb/s, as ibv_rate
// 4.096 us * 2^16 = 0.27 s, the value of Linux on RoCE. It leads to an ACK timeout of 0.54 s, which
// bears with a peer whose process gets no processor. Lost packets are recovered long before.
constexpr std::uint8_t kPacketLifeTime = 16;
constexpr std::uint8_t kRoceHopLimit = 64;

enum : std::uint32_t { kRemoteWrite = 2, kRemoteRead = 4, kRemoteAtomic = 8 };

// Attributes are known from the REQ to the end of the connection. All but INIT need the peer's
// queue pair.
bool knows_attributes(ConnectionState state, std::uint32_t qp_state) {
  using enum ConnectionState;
  switch (state) {
    case kReqSent:
    case kMraReqReceived:
      return qp_state == kQpInit;
    case kIdle:
    case kDreqSent:
    case kDreqReceived:
    case kTimewait:
      return false;
    default:
      return true;
  }
}

}  // namespace

PathRecord path_of(const RdmaId& id, const PortInfo& port, const RemotePort& remote,
                   const Connection* connection) {
  PathRecord path;
  path.sgid = port.gid;
  path.dgid = remote.gid;
  path.slid = port.lid;
  path.dlid = remote.lid;
  path.hop_limit = port.roce ? kRoceHopLimit : 0;
  // Once there is a request, both sides use the traffic class of its path.
  path.traffic_class = connection == nullptr ? id.tos : connection->negotiated().path.traffic_class;
  path.pkey = port.pkey;
  path.mtu = port.mtu;
  path.rate = kRate;
  path.packet_life_time = kPacketLifeTime;
  return path;
}

AhAttr ah_of(const PathRecord& path, const PortInfo& port) {
  AhAttr ah;
  ah.dlid = path.dlid;
  ah.dgid = path.dgid;
  ah.sgid_index = port.gid_index;
  ah.hop_limit = path.hop_limit;
  ah.traffic_class = path.traffic_class;
  ah.flow_label = path.flow_label;
  ah.is_global = port.roce;
  return ah;
}

AhAttr ah_of_group(const Gid& mgid, const PortInfo& port, std::uint8_t traffic_class) {
  AhAttr ah;
  ah.dgid = mgid;
  ah.dlid = port.roce ? 0 : mlid_of(mgid);
  ah.sgid_index = port.gid_index;
  ah.hop_limit = port.roce ? kRoceHopLimit : 0;
  ah.traffic_class = traffic_class;
  ah.is_global = true;
  return ah;
}

RouteInfo route_info(const RdmaId& id, const PortInfo* port,
                     const std::optional<PathRecord>& path) {
  RouteInfo info;
  info.port = port;
  info.source = id.source;
  info.destination = id.destination;
  info.source_service = service_id_of(id.space, id.source.port);
  info.destination_service = service_id_of(id.space, id.destination.port);
  if (port == nullptr) return info;
  info.has_path = path && id.state != IdState::kAddressResolved;
  if (path) {
    info.path = *path;
  } else {
    info.path.sgid = port->gid;
    info.path.pkey = port->pkey;
  }
  return info;
}

QpAttr attributes_without_connection(const RdmaId& id, std::uint32_t qp_state) {
  QpAttr attr;
  attr.qp_state = qp_state;
  attr.mask = kMaskState | kMaskPkeyIndex | kMaskPort;
  if (id.is_ud()) {
    attr.qkey = id.qkey_in_use();
    attr.mask |= kMaskQkey;
  } else {
    attr.mask |= kMaskAccessFlags;
  }
  return attr;
}

std::optional<QpAttr> attributes_of(const RdmaId& id, const PortInfo& port, const PathRecord& path,
                                    const Connection& connection, std::uint32_t qp_state) {
  if (!knows_attributes(connection.state(), qp_state)) return std::nullopt;
  const Negotiated& n = connection.negotiated();
  const bool reliable = id.qp_type != QpType::kUc;
  const bool sends_reads = id.qp_type == QpType::kRc || id.qp_type == QpType::kXrcSend;
  const bool answers_reads = id.qp_type == QpType::kRc || id.qp_type == QpType::kXrcRecv;
  QpAttr attr;
  attr.qp_state = qp_state;
  switch (qp_state) {
    case kQpInit:
      attr.mask = kMaskState | kMaskAccessFlags | kMaskPkeyIndex | kMaskPort;
      attr.access_flags = kRemoteWrite;
      if (n.responder_resources != 0) attr.access_flags |= kRemoteRead | kRemoteAtomic;
      return attr;
    case kQpReadyToReceive:
      attr.mask = kMaskState | kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn;
      attr.ah = ah_of(path, port);
      if (port.roce) attr.ah.flow_label = n.path.flow_label;
      attr.path_mtu = n.path_mtu;
      attr.dest_qp_num = n.remote_qpn;
      attr.rq_psn = id.starting_psn;
      if (answers_reads) {
        attr.mask |= kMaskMaxDestRdAtomic | kMaskMinRnrTimer;
        attr.max_dest_rd_atomic = n.responder_resources;
      }
      return attr;
    case kQpReadyToSend:
      attr.mask = kMaskState | kMaskSqPsn;
      attr.sq_psn = n.send_psn;
      if (sends_reads) {
        attr.mask |= kMaskRetryCount | kMaskRnrRetry | kMaskMaxRdAtomic;
        attr.retry_count = n.retry_count;
        attr.rnr_retry = n.rnr_retry_count;
        attr.max_rd_atomic = n.initiator_depth;
      }
      if (reliable) {
        attr.mask |= kMaskTimeout;
        attr.timeout = id.ack_timeout.value_or(n.path.local_ack_timeout);
      }
      return attr;
    default:
      return std::nullopt;
  }
}

}  // namespace verbena::cm
