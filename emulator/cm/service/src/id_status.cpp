// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm_service/id_status.hpp"

#include <cstdint>
#include <string>
#include <vector>

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

bool is_over(const cm::Connection* connection) {
  return connection == nullptr || connection->state() == cm::ConnectionState::kIdle ||
         connection->state() == cm::ConnectionState::kTimewait;
}

// A UD ID has no connection. It has a request, which is answered or not.
const char* state_of_ud(const cm::RdmaId& id, const cm::SidrExchange* exchange) {
  using State = cm::SidrExchange::State;
  if (id.is_accepted) return "CONNECTED";
  if (exchange != nullptr && exchange->state() == State::kReqSent) return "CONNECT";
  if (exchange != nullptr && exchange->state() == State::kReqReceived) return "REQUEST";
  return id.uid == 0 ? "REJECTED" : "FAILED";
}

const char* state_while_connecting(const cm::RdmaId& id, const cm::Connection* connection,
                                   const cm::SidrExchange* exchange) {
  if (id.is_ud()) return state_of_ud(id, exchange);
  const bool is_request = id.uid == 0;
  if (is_over(connection)) return is_request ? "REJECTED" : "FAILED";
  return is_request ? "REQUEST" : state_of(*connection);
}

const char* state_of(const cm::RdmaId& id, const cm::Connection* connection,
                     const cm::SidrExchange* exchange) {
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
      return state_while_connecting(id, connection, exchange);
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

// The states of the kernel's enum rdma_cm_state that an ID reaches here.
enum class KernelState : std::uint8_t {
  kIdle = 0,
  kAddrQuery = 1,
  kAddrResolved = 2,
  kRouteResolved = 4,
  kConnect = 5,  // connecting or connected, until the peer has said that it is over
  kDisconnect = 6,
  kAddrBound = 7,
  kListen = 8
};

KernelState kernel_state_of(cm::IdState state) {
  switch (state) {
    case cm::IdState::kIdle:
      return KernelState::kIdle;
    case cm::IdState::kBound:
      return KernelState::kAddrBound;
    case cm::IdState::kAddressQuery:
      return KernelState::kAddrQuery;
    case cm::IdState::kAddressResolved:
      return KernelState::kAddrResolved;
    case cm::IdState::kRouteResolved:
      return KernelState::kRouteResolved;
    case cm::IdState::kListening:
      return KernelState::kListen;
    case cm::IdState::kConnecting:
      return KernelState::kConnect;
    case cm::IdState::kDisconnected:
      return KernelState::kDisconnect;
  }
  return KernelState::kIdle;
}

std::vector<std::uint8_t> bytes_of(const cm::SocketAddress& address) {
  std::vector<std::uint8_t> bytes(cm::SocketAddress::kMaxSize);
  bytes.resize(address.write_to(bytes));
  return bytes;
}

control::CmIdResource resource_of(const cm::RdmaId& id) {
  control::CmIdResource resource;
  resource.number = id.handle;
  resource.qpn = id.qp_num;
  resource.qp_type = static_cast<std::uint8_t>(id.qp_type);
  resource.state = static_cast<std::uint8_t>(kernel_state_of(id.state));
  resource.port_space = static_cast<std::uint16_t>(id.space);
  resource.source = bytes_of(id.source);
  resource.destination = bytes_of(id.destination);
  return resource;
}

}  // namespace

fabric::CmIdStatus status_of(const cm::RdmaId& id, const cm::Connection* connection,
                             const cm::SidrExchange* exchange) {
  fabric::CmIdStatus status;
  status.number = id.handle;
  status.state = state_of(id, connection, exchange);
  status.port_space = name_of(id.space);
  status.source = text_of(id.source);
  status.destination = text_of(id.destination);
  status.qpn = id.qp_num;
  status.backlog = id.backlog;
  status.listens_everywhere = id.state == cm::IdState::kListening && !id.device;
  status.resource = resource_of(id);
  return status;
}

}  // namespace verbena::cm_service
