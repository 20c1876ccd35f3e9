// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm/connection_requests.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "verbena/cm/event.hpp"

namespace verbena::cm {
namespace {

constexpr std::uint8_t kMaxRetryCount = 7;  // three bits

template <std::size_t N>
bool put(std::array<std::uint8_t, N>& out, const PrivateData& data, std::size_t offset = 0) {
  const std::span<const std::uint8_t> bytes = data.view();
  if (offset + bytes.size() > N) return false;
  std::copy(bytes.begin(), bytes.end(), out.begin() + static_cast<std::ptrdiff_t>(offset));
  return true;
}

// Puts the IP addresses in front of the user's data.
template <std::size_t N>
bool put_request_data(std::array<std::uint8_t, N>& out, const RdmaId& id, const PrivateData& data) {
  const std::size_t offset = user_data_offset(id.source);
  if (!put(out, data, offset)) return false;
  if (offset == 0) return true;
  IpHeader header;
  header.ip_version = id.source.family == Family::kInet ? 4 : 6;
  header.source_port = id.source.port;
  header.source = id.source.ip;
  header.destination = id.destination.ip;
  header.write_to(out);
  return true;
}

std::uint64_t destination_service(const RdmaId& id) {
  return id.destination.family == Family::kIb ? id.destination.service_id
                                              : service_id_of(id.space, id.destination.port);
}

}  // namespace

std::optional<Req> req_of(const RdmaId& id, const PortInfo& port, const PathRecord& path,
                          const ConnParam& param, const Ece& ece) {
  Req req;
  if (!put_request_data(req.private_data, id, param.private_data)) return std::nullopt;
  req.ece_vendor_id = ece.vendor_id;
  req.service_id = destination_service(id);
  req.local_ca_guid = port.node_guid;
  req.local_qpn = param.qp_num;
  req.responder_resources = param.responder_resources;
  req.initiator_depth = param.initiator_depth;
  req.remote_response_timeout = kResponseTimeout;
  req.local_response_timeout = kResponseTimeout;
  req.max_cm_retries = kMaxRetries;
  req.flow_control = param.flow_control != 0;
  req.starting_psn = id.starting_psn;
  req.retry_count = std::min(param.retry_count, kMaxRetryCount);
  req.rnr_retry_count = std::min(param.rnr_retry_count, kMaxRetryCount);
  req.pkey = port.pkey;
  req.path_mtu = path.mtu;
  req.srq = param.srq;
  if (id.qp_type == QpType::kUc) req.service_type = ServiceType::kUc;
  if (id.qp_type == QpType::kXrcSend) {
    req.service_type = ServiceType::kExtended;
    req.extended_type = kExtendedXrc;
  }
  constexpr std::uint16_t kPermissiveLid = 0xffff;  // RoCE has no LIDs
  req.primary.local_lid = port.roce ? kPermissiveLid : path.slid;
  req.primary.remote_lid = port.roce ? kPermissiveLid : path.dlid;
  req.primary.local_gid = path.sgid;
  req.primary.remote_gid = path.dgid;
  req.primary.flow_label = path.flow_label;
  req.primary.packet_rate = path.rate;
  req.primary.traffic_class = path.traffic_class;
  req.primary.hop_limit = path.hop_limit;
  req.primary.subnet_local = port.roce ? 0 : 1;
  req.primary.local_ack_timeout =
      id.ack_timeout.value_or(static_cast<std::uint8_t>(path.packet_life_time + 1));
  return req;
}

std::optional<SidrReq> sidr_req_of(const RdmaId& id, const PortInfo& port, const ConnParam& param) {
  SidrReq req;
  if (!put_request_data(req.private_data, id, param.private_data)) return std::nullopt;
  req.pkey = port.pkey;
  req.service_id = destination_service(id);
  return req;
}

std::optional<Rep> rep_of(const RdmaId& id, const PortInfo& port, const ConnParam& param,
                          const Ece& ece) {
  Rep rep;
  if (!put(rep.private_data, param.private_data)) return std::nullopt;
  rep.local_qpn = param.qp_num;
  rep.starting_psn = id.starting_psn;
  rep.responder_resources = param.responder_resources;
  rep.initiator_depth = param.initiator_depth;
  rep.flow_control = param.flow_control != 0;
  rep.rnr_retry_count = std::min(param.rnr_retry_count, kMaxRetryCount);
  rep.srq = param.srq;
  rep.local_ca_guid = port.node_guid;
  rep.set_ece_vendor_id(ece.vendor_id);
  return rep;
}

std::optional<SidrRep> sidr_rep_of(const RdmaId& id, const ConnParam& param, const Ece& ece) {
  SidrRep rep;
  if (!put(rep.private_data, param.private_data)) return std::nullopt;
  rep.qpn = param.qp_num;
  rep.qkey = param.qkey != 0 ? param.qkey : id.qkey_in_use();
  rep.ece_vendor_high = static_cast<std::uint16_t>(ece.vendor_id >> 8);
  rep.ece_vendor_low = static_cast<std::uint8_t>(ece.vendor_id);
  return rep;
}

}  // namespace verbena::cm
