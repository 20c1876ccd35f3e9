// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm/ports.hpp"

#include <cerrno>

namespace verbena::cm {
namespace {

IpAddress loopback_of(Family family) {
  if (family != Family::kInet6) return IpAddress::v4(0x7f000001);
  IpAddress address;
  address.bytes[15] = 1;
  return address;
}

}  // namespace

Result<const PortInfo*, int> resolve_local(const Ports& ports, const SocketAddress& address) {
  if (address.is_link_local() && address.scope_id == 0) return Failure{EINVAL};
  if (address.is_v4_mapped()) return Failure{EADDRNOTAVAIL};
  IpAddress ip = address.ip;
  if (address.family == Family::kIb) {
    const std::optional<IpAddress> behind = ports.address_of(Gid{ip.bytes});
    if (!behind) return Failure{EADDRNOTAVAIL};
    ip = *behind;
  }
  if (const PortInfo* own = ports.at(ip)) return own;
  if (address.family == Family::kIb || !ports.is_local(ip)) return Failure{EADDRNOTAVAIL};
  if (const PortInfo* port = ports.default_port()) return port;
  return Failure{ENODEV};
}

Result<ResolvedRoute, int> resolve(const Ports& ports, const SocketAddress& source,
                                   const SocketAddress& destination) {
  if (destination.is_v4_mapped()) return Failure{ENETUNREACH};
  IpAddress target = destination.ip;
  if (destination.is_any()) {
    target = loopback_of(destination.family);
  } else if (destination.family == Family::kIb) {
    const std::optional<IpAddress> behind = ports.address_of(Gid{target.bytes});
    if (!behind) return Failure{EHOSTUNREACH};
    target = *behind;
  }
  const PortInfo* far = ports.at(target);
  const bool local = far != nullptr || ports.is_local(target);
  const bool is_group = target.is_multicast();
  ResolvedRoute route{nullptr, target, target, local};

  if (source.is_set() && !source.is_any()) {
    const Result<const PortInfo*, int> port = resolve_local(ports, source);
    if (!port) return Failure{port.error()};
    route.port = *port;
    route.source = source.ip;
  } else if (local) {
    route.port = far != nullptr ? far : ports.default_port();
  } else if (is_group) {
    const std::optional<IpAddress> from = ports.source_for(target);
    route.port = from ? ports.at(*from) : nullptr;
    if (route.port == nullptr) route.port = ports.default_port();
    if (route.port != nullptr) route.source = route.port->address;
  } else {
    const std::optional<IpAddress> from = ports.source_for(target);
    if (!from) return Failure{ENETUNREACH};
    route.source = *from;
    route.port = ports.at(*from);
  }
  if (route.port == nullptr) return Failure{ENODEV};
  if ((local || is_group) && far == nullptr) route.peer = route.port->address;
  if (far != nullptr && far->roce != route.port->roce) return Failure{EHOSTUNREACH};
  return route;
}

}  // namespace verbena::cm
