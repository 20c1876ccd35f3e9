// SPDX-License-Identifier: BSD-2-Clause
// What connection management must know of the emulated devices and of the host's addresses. The
// daemon implements it with its fabric, a simulation with a table. `resolve` is the only place that
// decides which device serves an address.
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/base/address.hpp"
#include "verbena/base/result.hpp"
#include "verbena/cm/event.hpp"
#include "verbena/cm/sockaddr.hpp"

namespace verbena::cm {

// A port by one of its addresses. Each address of a port counts as a device of its own here.
struct PortInfo {
  DeviceId device = 0;
  std::uint64_t node_guid = 0;
  std::uint32_t ibdev_index = 0;
  bool roce = false;
  IpAddress address;  // address where its QP1 listens
  std::uint16_t lid = 0;
  Gid gid;
  std::uint8_t gid_index = 0;
  std::uint16_t pkey = 0xffff;
  std::uint8_t mtu = 5;  // encoded as in verbena::Mtu
};

// A port of any host, as one of the emulator's ports sees it.
struct RemotePort {
  std::uint16_t lid = 0;
  Gid gid;
};

class Ports {
 public:
  virtual ~Ports() = default;
  // Returns null if the device is gone.
  virtual const PortInfo* find(DeviceId device) const = 0;
  virtual bool is_active(DeviceId device) const = 0;
  // Returns the device that has this address.
  virtual const PortInfo* at(const IpAddress& address) const = 0;
  // Makes the ports receive at every address that they have or will get, because an ID listens on
  // all of them.
  virtual void listen_everywhere() const {}
  // Returns the device that serves 127.0.0.1 and every other local address that no device has.
  virtual const PortInfo* default_port() const = 0;
  virtual bool is_local(const IpAddress& address) const = 0;
  // Returns the local address from which the host would send to a remote one.
  virtual std::optional<IpAddress> source_for(const IpAddress& remote) const = 0;
  // Returns true if the neighbour on the way to this address has answered. If not, asks it.
  virtual bool has_answered(const IpAddress& remote) const = 0;
  virtual RemotePort remote(const PortInfo& from, const IpAddress& address) const = 0;
  virtual std::optional<IpAddress> address_of(const Gid& gid) const = 0;
};

struct ResolvedRoute {
  const PortInfo* port;  // the local port
  IpAddress source;      // the local IP address, as the user names it
  IpAddress peer;        // address of the remote port
  bool is_local;         // the peer is on this host
};

// Returns the device for a local address that is not the wildcard. Errors: EADDRNOTAVAIL, ENODEV,
// and EINVAL for a link-local one without a scope ID.
Result<const PortInfo*, int> resolve_local(const Ports& ports, const SocketAddress& address);

// Returns how to reach `destination`, from `source` if that is set. For a local destination that no
// device has as its address, source and peer are the same port. A group is reached by the device of
// the host's route, or else by the one that serves local addresses. Errors: ENODEV if no device
// serves the way to the destination, ENETUNREACH, EHOSTUNREACH.
Result<ResolvedRoute, int> resolve(const Ports& ports, const SocketAddress& source,
                                   const SocketAddress& destination);

}  // namespace verbena::cm
