// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm_service/id_status.hpp"

#include <string>

#include "verbena/base/address.hpp"

namespace verbena::cm_service {
namespace {

const char* state_of(const cm::Connection& connection) {
  switch (connection.state()) {
    case cm::ConnectionState::kEstablished:
      return "CONNECTED";
    case cm::ConnectionState::kDreqSent:
      return "DISCONNECT";
    default:
      return "CONNECT";
  }
}

// A UD ID has no connection, so it stays CONNECT after the answer.
const char* state_of(const cm::RdmaId& id, const cm::Connection* connection) {
  switch (id.state) {
    case cm::IdState::kIdle:
      return "IDLE";
    case cm::IdState::kBound:
      return "BOUND";
    case cm::IdState::kAddressQuery:
      return "ADDR_QUERY";
    case cm::IdState::kAddressResolved:
      return "ADDR_RESOLVED";
    case cm::IdState::kRouteResolved:
      return "ROUTE_RESOLVED";
    case cm::IdState::kListening:
      return "LISTEN";
    case cm::IdState::kConnecting:
      if (id.uid == 0) return "REQUEST";
      return connection != nullptr ? state_of(*connection) : "CONNECT";
    case cm::IdState::kDisconnected:
      return "DISCONNECTED";
  }
  return "";
}

const char* name_of(cm::PortSpace space) {
  switch (space) {
    case cm::PortSpace::kIpoib:
      return "IPOIB";
    case cm::PortSpace::kTcp:
      return "TCP";
    case cm::PortSpace::kUdp:
      return "UDP";
    case cm::PortSpace::kIb:
      return "IB";
  }
  return "";
}

std::string text_of(const cm::SocketAddress& address) {
  if (!address.is_set()) return "";
  const std::string ip = address.ip.to_string();
  const bool is_v4 = address.family == cm::Family::kInet;
  return (is_v4 ? ip : "[" + ip + "]") + ":" + std::to_string(address.port);
}

}  // namespace

fabric::CmIdStatus status_of(const cm::RdmaId& id, const cm::Connection* connection) {
  fabric::CmIdStatus status;
  status.number = id.handle;
  status.state = state_of(id, connection);
  status.port_space = name_of(id.space);
  status.source = text_of(id.source);
  status.destination = text_of(id.destination);
  status.qpn = id.qp_num;
  status.backlog = id.backlog;
  return status;
}

}  // namespace verbena::cm_service
