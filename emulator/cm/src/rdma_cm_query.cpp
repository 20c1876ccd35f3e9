// SPDX-License-Identifier: BSD-2-Clause
// What a program may ask of an ID: its route, and the attributes for its queue pair.
#include <cerrno>

#include "verbena/cm/rdma_cm.hpp"

namespace verbena::cm {
namespace {

constexpr std::uint8_t kRate = 16;  // 100 Gb/s, as ibv_rate
// 4.096 us * 2^16 = 0.27 s, as Linux says on RoCE. It makes the ACK timeout of 0.54 s, which is a
// peer's patience with a process that gets no processor: losses are made up for long before.
constexpr std::uint8_t kPacketLifeTime = 16;
constexpr std::uint8_t kRoceHopLimit = 64;

enum : std::uint32_t { kRemoteWrite = 2, kRemoteRead = 4, kRemoteAtomic = 8 };

// From the REQ to the end of the connection; all but INIT need the peer's queue pair.
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

PathRecord RdmaCm::path_of(const Id& id, const PortInfo& port) const {
  const RemotePort remote = ports_.remote(port, id.peer);
  PathRecord path;
  path.sgid = port.gid;
  path.dgid = remote.gid;
  path.slid = port.lid;
  path.dlid = remote.lid;
  path.hop_limit = port.roce ? kRoceHopLimit : 0;
  // Once there is a request, both sides have the path that it names.
  const Connection* connection = id.is_ud() ? nullptr : agent_.connection(id.comm);
  path.traffic_class = connection == nullptr ? id.tos : connection->negotiated().path.traffic_class;
  path.pkey = port.pkey;
  path.mtu = port.mtu;
  path.rate = kRate;
  path.packet_life_time = kPacketLifeTime;
  return path;
}

AhAttr RdmaCm::ah_of(const Id& id, const PortInfo& port) const {
  const PathRecord path = path_of(id, port);
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

int RdmaCm::query(ChannelId channel, IdHandle handle, RouteInfo& info) const {
  const Id* id = nullptr;
  if (const int error = find(channel, handle, id)) return error;
  info = {};
  info.source = id->source;
  info.destination = id->destination;
  info.source_service = service_id_of(id->space, id->source.port);
  info.destination_service = service_id_of(id->space, id->destination.port);
  info.port = id->device ? ports_.find(*id->device) : nullptr;
  if (info.port == nullptr) return 0;
  const bool addressed = id->destination.is_set() && id->state != IdState::kBound &&
                         id->state != IdState::kAddressQuery;
  if (addressed) {
    info.path = path_of(*id, *info.port);
  } else {
    info.path.sgid = info.port->gid;
    info.path.pkey = info.port->pkey;
  }
  info.has_path = addressed && id->state != IdState::kAddressResolved;
  return 0;
}

int RdmaCm::init_qp_attr(ChannelId channel, IdHandle handle, std::uint32_t qp_state,
                         QpAttr& attr) const {
  const Id* id = nullptr;
  if (const int error = find(channel, handle, id)) return error;
  const PortInfo* port = id->device ? ports_.find(*id->device) : nullptr;
  if (port == nullptr) return EINVAL;
  attr = {};
  attr.qp_state = qp_state;
  const Connection* connection = id->is_ud() ? nullptr : agent_.connection(id->comm);
  if (connection == nullptr) {
    attr.mask = kMaskState | kMaskPkeyIndex | kMaskPort;
    if (id->is_ud()) {
      attr.qkey = qkey_of(*id);
      attr.mask |= kMaskQkey;
    } else {
      attr.mask |= kMaskAccessFlags;
    }
    return 0;
  }
  if (!knows_attributes(connection->state(), qp_state)) return EINVAL;
  const Negotiated& n = connection->negotiated();
  const bool reliable = id->qp_type != QpType::kUc;
  const bool sends_reads = id->qp_type == QpType::kRc || id->qp_type == QpType::kXrcSend;
  const bool answers_reads = id->qp_type == QpType::kRc || id->qp_type == QpType::kXrcRecv;
  switch (qp_state) {
    case kQpInit:
      attr.mask = kMaskState | kMaskAccessFlags | kMaskPkeyIndex | kMaskPort;
      attr.access_flags = kRemoteWrite;
      if (n.responder_resources != 0) attr.access_flags |= kRemoteRead | kRemoteAtomic;
      return 0;
    case kQpReadyToReceive:
      attr.mask = kMaskState | kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn;
      attr.ah = ah_of(*id, *port);
      if (port->roce) attr.ah.flow_label = n.path.flow_label;
      attr.path_mtu = n.path_mtu;
      attr.dest_qp_num = n.remote_qpn;
      attr.rq_psn = id->starting_psn;
      if (answers_reads) {
        attr.mask |= kMaskMaxDestRdAtomic | kMaskMinRnrTimer;
        attr.max_dest_rd_atomic = n.responder_resources;
      }
      return 0;
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
        attr.timeout = id->ack_timeout.value_or(n.path.local_ack_timeout);
      }
      return 0;
    default:
      return EINVAL;
  }
}

}  // namespace verbena::cm
