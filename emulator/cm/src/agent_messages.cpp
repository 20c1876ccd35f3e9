// SPDX-License-Identifier: BSD-2-Clause
// Finds the connection that a message belongs to, and answers messages that belong to none.
#include "verbena/base/check.hpp"
#include "verbena/cm/agent.hpp"

namespace verbena::cm {

using enum ConnectionState;

namespace {

// Returns true if the connection is alive, as far as this side knows.
bool is_alive(const Connection& c) {
  switch (c.state()) {
    case kReqReceived:
    case kMraReqSent:
    case kRepSent:
    case kMraRepReceived:
    case kEstablished:
      return !c.is_abandoned();
    default:
      return false;
  }
}

}  // namespace

void Agent::handle_mad(TimeNs now, DeviceId device, const IpAddress& source,
                       std::span<const std::uint8_t> bytes) {
  const std::optional<Mad> mad = parse_mad(bytes);
  if (!mad) return drop(MadDrop::kMalformed);
  if (const auto* req = std::get_if<Req>(&mad->message)) {
    return handle_req(now, device, source, *mad, *req);
  }
  if (const auto* req = std::get_if<SidrReq>(&mad->message)) {
    return handle_sidr_req(now, device, source, *mad, *req);
  }
  if (const auto* rep = std::get_if<SidrRep>(&mad->message)) {
    return handle_sidr_rep({device, source.bytes}, *mad, *rep);
  }
  const Origin origin{device, source.bytes};
  Connection* c = addressee(origin, *mad);
  if (c == nullptr) return answer_unknown(device, source, *mad);
  if (origin_of(*c) != origin) return drop(MadDrop::kNotFromPeer);
  const TimeNs before = c->deadline();
  c->handle(now, *mad);
  settle(*c, before);
}

Connection* Agent::addressee(const Origin& origin, const Mad& mad) {
  return std::visit(
      [&, this](const auto& message) -> Connection* {
        if constexpr (requires { message.remote_comm_id; }) {
          Connection* c = find(message.remote_comm_id);
          if (c != nullptr) return c;
        }
        // A REJ for a timeout may come from a peer that has never learned this side's ID.
        if constexpr (std::is_same_v<std::decay_t<decltype(message)>, Rej>) {
          const std::uint64_t guid = read_bits(message.info, Field{"ca_guid", 0, 0, 64});
          const auto it = by_remote_id_.find({origin, guid, message.local_comm_id});
          if (it != by_remote_id_.end()) return find(it->second);
        }
        return nullptr;
      },
      mad.message);
}

void Agent::answer_unknown(DeviceId device, const IpAddress& source, const Mad& mad) {
  drop(MadDrop::kUnknownConnection);
  const auto answer = [&](const Message& message) {
    out_.mads.push_back({device, source, write_mad({mad.transaction_id, 0, message})});
  };
  if (const auto* rep = std::get_if<Rep>(&mad.message)) {
    Rej rej{.local_comm_id = rep->remote_comm_id, .remote_comm_id = rep->local_comm_id};
    rej.answered = Answered::kRep;
    rej.reason = RejectReason::kInvalidCommId;
    answer(rej);
  } else if (const auto* dreq = std::get_if<Dreq>(&mad.message)) {
    answer(Drep{.local_comm_id = dreq->remote_comm_id, .remote_comm_id = dreq->local_comm_id});
  } else if (const auto* lap = std::get_if<Lap>(&mad.message)) {
    answer(Apr{.local_comm_id = lap->remote_comm_id,
               .remote_comm_id = lap->local_comm_id,
               .status = AlternatePathStatus::kInvalidCommId});
  }
}

bool Agent::is_stale(TimeNs now, const Origin& origin, const Req& req) {
  const auto it = by_remote_qpn_.find({origin, req.local_ca_guid, req.local_qpn});
  if (it == by_remote_qpn_.end() || req.service_type == ServiceType::kExtended) return false;
  const Connection* old = connection(it->second);
  if (old == nullptr || !is_alive(*old)) return false;
  // The peer has lost the old connection. Otherwise its queue pair would not ask anew.
  disconnect(now, old->id());
  return true;
}

void Agent::handle_req(TimeNs now, DeviceId device, const IpAddress& source, const Mad& mad,
                       const Req& req) {
  const Origin origin{device, source.bytes};
  const auto known = by_remote_id_.find({origin, req.local_ca_guid, req.local_comm_id});
  if (known != by_remote_id_.end()) {
    Connection* c = find(known->second);
    VERBENA_CHECK(c != nullptr);
    return c->handle_duplicate_req();
  }
  Rej rej{.local_comm_id = 0, .remote_comm_id = req.local_comm_id};
  if (is_stale(now, origin, req)) {
    rej.reason = RejectReason::kStaleConnection;
  } else if (req.service_type == ServiceType::kRd ||
             (req.service_type == ServiceType::kExtended && req.extended_type != kExtendedXrc)) {
    rej.reason = RejectReason::kInvalidServiceType;
  } else if (req.path_mtu < 1 || req.path_mtu > 5) {
    rej.reason = RejectReason::kInvalidMtu;
  } else if (by_remote_id_.size() >= kMaxPassive) {
    return drop(MadDrop::kTooMany);
  } else {
    const CommId id = new_connection(device);
    Connection& c = *connections_.at(id);
    c.handle_first_req(source, mad, req);
    by_remote_id_[{origin, req.local_ca_guid, req.local_comm_id}] = id;
    by_remote_qpn_[{origin, req.local_ca_guid, req.local_qpn}] = id;
    return;
  }
  out_.mads.push_back({device, source, write_mad({mad.transaction_id, 0, rej})});
}

void Agent::handle_sidr_req(TimeNs now, DeviceId device, const IpAddress& source, const Mad& mad,
                            const SidrReq& req) {
  const Origin origin{device, source.bytes};
  const auto known = by_request_.find({origin, req.request_id});
  if (known != by_request_.end()) {
    SidrExchange& exchange = *sidrs_.at(known->second);
    const TimeNs before = exchange.deadline();
    exchange.handle_duplicate_req(now);
    return settle(exchange, before);
  }
  if (by_request_.size() >= kMaxPassive) return drop(MadDrop::kTooMany);
  const CommId id = new_sidr(device);
  sidrs_.at(id)->handle_first_req(source, mad, req);
  by_request_[{origin, req.request_id}] = id;
}

void Agent::handle_sidr_rep(const Origin& origin, const Mad& mad, const SidrRep& rep) {
  const auto it = sidrs_.find(rep.request_id);
  if (it == sidrs_.end()) return drop(MadDrop::kUnknownConnection);
  SidrExchange& exchange = *it->second;
  if (origin_of(exchange) != origin) return drop(MadDrop::kNotFromPeer);
  const TimeNs before = exchange.deadline();
  exchange.handle_rep(mad);
  settle(exchange, before);
}

}  // namespace verbena::cm
