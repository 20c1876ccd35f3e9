// SPDX-License-Identifier: BSD-2-Clause
// Two programs as they are usually written: a server that accepts every request and disconnects
// when its peer does, and a client that connects, disconnects and ends. Each counts its events.
#pragma once

#include <map>
#include <set>

#include "cm_world.hpp"

namespace verbena::cm::sim {

inline constexpr ChannelId kChannel = 1;
inline constexpr std::uint16_t kPort = 7174;

inline SocketAddress inet(const IpAddress& ip, std::uint16_t port) {
  return SocketAddress::of(ip, port);
}

class Server {
 public:
  Server(Host& host, ChannelId channel, PortSpace space = PortSpace::kTcp, TimeNs now = 0)
      : host_(host), channel_(channel) {
    host_.cm.open_channel(channel_);
    host_.cm.create_id(channel_, 1000, static_cast<std::uint16_t>(space), 0, listener);
    host_.cm.bind(channel_, listener, inet(IpAddress::v4(0), kPort));
    host_.cm.listen(now, channel_, listener, 0);
  }

  void run(TimeNs now) {
    while (const std::optional<RdmaEvent> e = host_.cm.get_event(channel_)) {
      ++seen[e->type];
      switch (e->type) {
        case RdmaEventType::kConnectRequest:
          last_request = *e;
          if (rejects) {
            host_.cm.reject(now, channel_, e->id, 0, {});
            destroy(now, e->id);
          } else if (accepts) {
            accept(now, e->id);
          } else {
            held.insert(e->id);
          }
          break;
        case RdmaEventType::kDisconnected:
          host_.cm.disconnect(now, channel_, e->id);
          destroy(now, e->id);
          break;
        case RdmaEventType::kRejected:
        case RdmaEventType::kUnreachable:
          destroy(now, e->id);
          break;
        default:
          break;
      }
    }
  }

  void accept(TimeNs now, IdHandle id) {
    ConnParam param;
    param.qp_num = 0x4000 + id;
    param.responder_resources = 4;
    param.initiator_depth = 4;
    param.private_data.assign(std::vector<std::uint8_t>{'h', 'i'});
    if (host_.cm.accept(now, channel_, id, 2000 + id, &param, Ece{0x15b3, 7}) != 0) {
      destroy(now, id);
    }
  }

  void destroy(TimeNs now, IdHandle id) {
    std::uint32_t reported = 0;
    std::uint32_t withdrawn = 0;
    host_.cm.destroy_id(now, channel_, id, reported, withdrawn);
  }

  std::map<RdmaEventType, int> seen;
  std::set<IdHandle> held;
  RdmaEvent last_request;
  bool accepts = true;  // otherwise it holds requests
  bool rejects = false;
  IdHandle listener = 0;

 private:
  Host& host_;
  ChannelId channel_;
};

class Client {
 public:
  Client(Host& host, ChannelId channel, PortSpace space = PortSpace::kTcp)
      : host_(host), channel_(channel), space_(space) {
    host_.cm.open_channel(channel_);
  }

  int connect(const IpAddress& to, std::uint32_t qpn = 0x8001) {
    qpn_ = qpn;
    host_.cm.create_id(channel_, 500, static_cast<std::uint16_t>(space_), 0, id);
    return host_.cm.resolve_addr(channel_, id, SocketAddress{}, inet(to, kPort));
  }

  void run(TimeNs now) {
    while (const std::optional<RdmaEvent> e = host_.cm.get_event(channel_)) {
      ++seen[e->type];
      last_status = e->status;
      switch (e->type) {
        case RdmaEventType::kAddrResolved:
          host_.cm.resolve_route(channel_, id);
          break;
        case RdmaEventType::kRouteResolved:
          send_connect(now);
          break;
        case RdmaEventType::kConnectResponse:
          response = *e;
          if (confirms && host_.cm.accept(now, channel_, id, 0, nullptr, Ece{}) == 0) {
            connected = true;
            if (hangs_up) host_.cm.disconnect(now, channel_, id);
          }
          break;
        case RdmaEventType::kEstablished:  // only for datagram services
          response = *e;
          connected = finished = true;
          destroy(now);
          break;
        case RdmaEventType::kDisconnected:
          host_.cm.disconnect(now, channel_, id);
          [[fallthrough]];
        case RdmaEventType::kRejected:
        case RdmaEventType::kUnreachable:
        case RdmaEventType::kAddrError:
          finished = true;
          destroy(now);
          break;
        default:
          break;
      }
    }
  }

  void destroy(TimeNs now) {
    std::uint32_t reported = 0;
    std::uint32_t withdrawn = 0;
    host_.cm.destroy_id(now, channel_, id, reported, withdrawn);
  }

  std::map<RdmaEventType, int> seen;
  RdmaEvent response;
  IdHandle id = 0;
  std::int32_t last_status = 0;
  bool confirms = true;
  bool hangs_up = true;
  bool connected = false;
  bool finished = false;

 private:
  void send_connect(TimeNs now) {
    ConnParam param;
    param.qp_num = qpn_;
    param.responder_resources = 3;
    param.initiator_depth = 2;
    param.retry_count = 7;
    param.rnr_retry_count = 7;
    param.private_data.assign(std::vector<std::uint8_t>{'r', 'p', 'i', 'n', 'g'});
    host_.cm.connect(now, channel_, id, param, Ece{0x15b3, 9});
  }

  Host& host_;
  ChannelId channel_;
  PortSpace space_;
  std::uint32_t qpn_ = 0;
};

}  // namespace verbena::cm::sim
