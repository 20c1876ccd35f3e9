// SPDX-License-Identifier: BSD-2-Clause
// Gives connection management the fabric's devices and the host's addresses. Asks the kernel for
// the host's addresses each time (a microsecond or two), so nothing goes stale. One thread.
#pragma once

#include <map>
#include <vector>

#include "verbena/cm/ports.hpp"
#include "verbena/fabric/fabric.hpp"
#include "verbena/fabric/plan.hpp"

namespace verbena::cm_service {

// A device's number consists of the place of the port in the fabric and, for a further address of
// the port (a row of the GID table), of that address's number as Destination::source. A further
// address is opened when it is first asked for.
class FabricPorts final : public cm::Ports {
 public:
  explicit FabricPorts(const fabric::Fabric& fabric);

  static cm::DeviceId number_of(std::size_t port, std::uint8_t source) {
    return static_cast<cm::DeviceId>(source * fabric::kMaxDevices + port);
  }
  static std::size_t port_of(cm::DeviceId device) { return device % fabric::kMaxDevices; }
  static std::uint8_t source_of(cm::DeviceId device) {
    return static_cast<std::uint8_t>(device / fabric::kMaxDevices);
  }
  // Returns all numbers that were given to this port.
  std::vector<cm::DeviceId> numbers_of(std::size_t port) const;
  // Must be called when attributes of ports have changed.
  void refresh();

  const cm::PortInfo* find(cm::DeviceId device) const override;
  bool is_active(cm::DeviceId device) const override;
  const cm::PortInfo* at(const IpAddress& address) const override;
  void listen_everywhere() const override;
  const cm::PortInfo* default_port() const override;
  bool is_local(const IpAddress& address) const override;
  std::optional<IpAddress> source_for(const IpAddress& remote) const override;
  bool has_answered(const IpAddress& remote) const override;
  cm::RemotePort remote(const cm::PortInfo& from, const IpAddress& address) const override;
  std::optional<IpAddress> address_of(const Gid& gid) const override;

 private:
  std::optional<IpAddress> link_local_source() const;
  const cm::PortInfo* known_at(const IpAddress& address) const;
  const cm::PortInfo* open(std::size_t port, const IpAddress& address) const;

  const fabric::Fabric& fabric_;
  mutable std::map<cm::DeviceId, cm::PortInfo> ports_;
  mutable bool listens_everywhere_ = false;
};

}  // namespace verbena::cm_service
