// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm/program_events.hpp"

#include <cerrno>
#include <variant>

namespace verbena::cm {
namespace {

QpType qp_type_of(const Req& req) {
  switch (req.service_type) {
    case ServiceType::kUc:
      return QpType::kUc;
    case ServiceType::kExtended:
      return QpType::kXrcRecv;
    default:
      return QpType::kRc;
  }
}

// Swaps depth and resources, whose meaning depends on the point of view.
ConnParam param_of(const Req& req, std::span<const std::uint8_t> user_data) {
  ConnParam p;
  p.qp_num = req.local_qpn;
  p.private_data.assign(user_data);
  p.srq = req.srq != 0;
  p.responder_resources = req.initiator_depth;
  p.initiator_depth = req.responder_resources;
  p.flow_control = req.flow_control;
  p.retry_count = req.retry_count;
  p.rnr_retry_count = req.rnr_retry_count;
  return p;
}

ConnParam param_of(const Rep& rep) {
  ConnParam p;
  p.qp_num = rep.local_qpn;
  p.private_data.assign(rep.private_data);
  p.srq = rep.srq != 0;
  p.responder_resources = rep.initiator_depth;
  p.initiator_depth = rep.responder_resources;
  p.flow_control = rep.flow_control;
  p.rnr_retry_count = rep.rnr_retry_count;
  return p;
}

}  // namespace

ServiceRequest service_request_of(const Mad& mad) {
  if (const auto* req = std::get_if<Req>(&mad.message)) {
    return {req->service_id, req->private_data, qp_type_of(*req)};
  }
  const auto& sidr = std::get<SidrReq>(mad.message);
  return {sidr.service_id, sidr.private_data, QpType::kUd};
}

RdmaEvent request_event(const Mad& request, std::size_t user_data) {
  RdmaEvent event;
  event.type = RdmaEventType::kConnectRequest;
  event.ece.option = request.attribute_modifier;
  const auto data = service_request_of(request).private_data.subspan(user_data);
  if (const auto* req = std::get_if<Req>(&request.message)) {
    event.ece.vendor_id = req->ece_vendor_id;
    event.param = param_of(*req, data);
  } else {
    event.param.emplace<UdParam>().private_data.assign(data);
  }
  return event;
}

RdmaEvent sidr_response_event(const CmEvent& cause, const std::optional<AhAttr>& ah) {
  RdmaEvent event;
  event.type = RdmaEventType::kUnreachable;
  UdParam& param = event.param.emplace<UdParam>();
  if (cause.kind != CmEventKind::kSidrRepReceived) {
    event.status = -ETIMEDOUT;
    return event;
  }
  const SidrRep& rep = std::get<SidrRep>(cause.mad.message);
  param.private_data.assign(rep.private_data);
  event.status = static_cast<std::int32_t>(rep.status);
  event.ece = {std::uint32_t{rep.ece_vendor_high} << 8 | rep.ece_vendor_low,
               cause.mad.attribute_modifier};
  if (rep.status != SidrStatus::kSuccess || !ah) return event;
  event.type = RdmaEventType::kEstablished;
  param.qp_num = rep.qpn;
  param.qkey = rep.qkey;
  param.ah = *ah;
  return event;
}

RdmaEvent membership_event(RdmaEventType type, std::uint32_t membership, std::uint64_t uid) {
  RdmaEvent event;
  event.type = type;
  event.param = UdParam{};
  event.membership = event.id = membership;
  event.uid = uid;
  return event;
}

std::optional<RdmaEvent> connection_event(const CmEvent& cause) {
  RdmaEvent event;
  switch (cause.kind) {
    case CmEventKind::kRepReceived: {
      const Rep& rep = std::get<Rep>(cause.mad.message);
      event.type = RdmaEventType::kConnectResponse;
      event.param = param_of(rep);
      event.ece = {rep.ece_vendor_id(), cause.mad.attribute_modifier};
      return event;
    }
    case CmEventKind::kEstablished:
      event.type = RdmaEventType::kEstablished;
      return event;
    case CmEventKind::kRejReceived: {
      const Rej& rej = std::get<Rej>(cause.mad.message);
      ConnParam param;
      param.private_data.assign(rej.private_data);
      event.type = RdmaEventType::kRejected;
      event.status = static_cast<std::int32_t>(rej.reason);
      event.param = param;
      return event;
    }
    case CmEventKind::kReqTimeout:
    case CmEventKind::kRepTimeout:
      event.type = RdmaEventType::kUnreachable;
      event.status = -ETIMEDOUT;
      return event;
    case CmEventKind::kDreqReceived:
    case CmEventKind::kDrepReceived:
    case CmEventKind::kDreqTimeout:
      event.type = RdmaEventType::kDisconnected;
      if (cause.kind == CmEventKind::kDreqTimeout) event.status = -ETIMEDOUT;
      return event;
    case CmEventKind::kTimewaitExit:
      event.type = RdmaEventType::kTimewaitExit;
      return event;
    default:
      return std::nullopt;
  }
}

}  // namespace verbena::cm
