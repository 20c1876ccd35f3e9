// SPDX-License-Identifier: BSD-2-Clause
// What connection management must know of the emulated devices and of the host's addresses. The
// daemon implements it over its fabric, a simulation over a table. `resolve` is the one place
// that decides which device serves an address.
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/base/address.hpp"
#include "verbena/base/result.hpp"
#include "verbena/cm/event.hpp"
#include "verbena/cm/sockaddr.hpp"

namespace verbena::cm {

// A port by one of its addresses. By each of them it is a device of its own here.
struct PortInfo {
  DeviceId device = 0;
  std::uint64_t node_guid = 0;
  std::uint32_t ibdev_index = 0;
  bool roce = false;
  IpAddress address;  // where its QP1 listens
  std::uint16_t lid = 0;
  Gid gid;
  std::uint8_t gid_index = 0;
  std::uint16_t pkey = 0xffff;
  std::uint8_t mtu = 5;  // encoded
};

// A port elsewhere, or here, as seen from one of ours.
struct RemotePort {
  std::uint16_t lid = 0;
  Gid gid;
};

class Ports {
 public:
  virtual ~Ports() = default;
  // Null when the device is gone.
  virtual const PortInfo* find(DeviceId device) const = 0;
  virtual bool is_active(DeviceId device) const = 0;
  // The device whose address this is.
  virtual const PortInfo* at(const IpAddress& address) const = 0;
  // Somebody listens at whatever addresses there are, and there will be.
  virtual void listen_everywhere() const {}
  // The device that serves 127.0.0.1 and every other local address that is no device's own.
  virtual const PortInfo* default_port() const = 0;
  virtual bool is_local(const IpAddress& address) const = 0;
  // The local address from which the host would send to a remote one.
  virtual std::optional<IpAddress> source_for(const IpAddress& remote) const = 0;
  // Whether a neighbour on the way to this address has answered; if not, it is asked.
  virtual bool has_answered(const IpAddress& remote) const = 0;
  virtual RemotePort remote(const PortInfo& from, const IpAddress& address) const = 0;
  virtual std::optional<IpAddress> address_of(const Gid& gid) const = 0;
};

struct ResolvedRoute {
  const PortInfo* port;  // ours
  IpAddress source;      // the local IP address, in the terms of the user
  IpAddress peer;        // the address of the port on the other side
  bool is_local;         // which is on this host
};

// The device for a local address that is not the wildcard. Errors: EADDRNOTAVAIL, ENODEV.
Result<const PortInfo*, int> resolve_local(const Ports& ports, const SocketAddress& address);

// How to reach `destination`, from `source` if that is set. A local destination that is no
// device's own address is the device itself: source and peer are the same port. To a group leads
// the device of the host's route, else the one that serves local addresses. Errors: ENODEV when no
// device serves the way there, ENETUNREACH, EHOSTUNREACH.
Result<ResolvedRoute, int> resolve(const Ports& ports, const SocketAddress& source,
                                   const SocketAddress& destination);

}  // namespace verbena::cm
