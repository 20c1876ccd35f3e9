// The fabric's devices and the host's addresses as connection management wants to see them. Asks
// the kernel for the host's addresses each time (a microsecond or two), so nothing goes stale.
// One thread.
#pragma once

#include <vector>

#include "verbena/cm/ports.hpp"
#include "verbena/fabric/fabric.hpp"

namespace verbena::cm_service {

class FabricPorts final : public cm::Ports {
 public:
  // A device's number is its place in the fabric.
  explicit FabricPorts(const fabric::Fabric& fabric);

  const cm::PortInfo* find(cm::DeviceId device) const override;
  bool is_active(cm::DeviceId device) const override;
  const cm::PortInfo* at(const IpAddress& address) const override;
  const cm::PortInfo* default_port() const override;
  bool is_local(const IpAddress& address) const override;
  std::optional<IpAddress> source_for(const IpAddress& remote) const override;
  bool has_answered(const IpAddress& remote) const override;
  cm::RemotePort remote(const cm::PortInfo& from, const IpAddress& address) const override;
  std::optional<IpAddress> address_of(const Gid& gid) const override;

 private:
  const fabric::Fabric& fabric_;
  std::vector<cm::PortInfo> ports_;
};

}  // namespace verbena::cm_service
