// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/fabric/fabric.hpp"

#include <cerrno>

#include "verbena/fabric/plan.hpp"

namespace verbena::fabric {

using control::Outcome;

Outcome<std::unique_ptr<Fabric>> Fabric::open(const std::vector<control::DeviceInfo>& devices,
                                              const std::string& shadow_root, Poller& poller,
                                              limits::FairShare& descriptors) {
  auto source_ports = link::SourcePorts::reserve();
  if (!source_ports) {
    return control::fail(source_ports.error().error, source_ports.error().text);
  }
  std::unique_ptr<Fabric> fabric(new Fabric(std::move(*source_ports), shadow_root));
  for (control::DeviceInfo info : devices) {
    info.first_source_port = fabric->source_ports_.first();
    auto port = Port::open(std::move(info), poller, descriptors, fabric->rules_);
    if (!port) return Failure<control::Error>{port.error()};
    std::vector<IpAddress> strangers;
    for (const control::DeviceInfo& other : devices) {
      if (other.persona != (*port)->info().persona) strangers.push_back(other.address);
    }
    (*port)->set_strangers(std::move(strangers));
    fabric->ports_.push_back(std::move(*port));
  }
  const auto shown = fabric->restore_shadow();
  if (!shown) return Failure<control::Error>{shown.error()};
  return fabric;
}

Fabric::~Fabric() { shadow_.remove(); }

std::vector<control::DeviceInfo> Fabric::devices() const {
  std::vector<control::DeviceInfo> all;
  for (const auto& port : ports_) all.push_back(port->info());
  return all;
}

RuleTotals Fabric::totals_of(const RuleTable::Entry& entry) const {
  RuleTotals sum = entry.retired;
  for (const auto& port : ports_) port->add_counted_of(entry.spec, sum);
  return sum;
}

Port* Fabric::find(std::string_view name) {
  for (const auto& port : ports_) {
    if (port->info().name == name) return port.get();
  }
  return nullptr;
}

control::Error Fabric::no_such_device(std::string_view name) const {
  std::string names;
  for (const auto& port : ports_) names += (names.empty() ? "" : ", ") + port->info().name;
  return {ENODEV, "no device \"" + std::string(name) + "\"; this emulator has " + names};
}

void Fabric::refresh_counters(std::string_view name) {
  for (const auto& port : ports_) {
    if (name.empty() || port->info().name == name) {
      shadow_.write_counters(port->info(), port->totals());
    }
  }
}

control::PortEvent Fabric::set_port_state(Port& port, bool up) {
  const control::PortState state = up ? control::PortState::kActive : control::PortState::kDown;
  control::PortEvent event;
  if (port.info().port_state != state) event.changes = control::kPortStateChanged;
  port.set_state(state);
  shadow_.write_port(port.info());
  event.device = port.info();
  return event;
}

std::vector<control::PortEvent> Fabric::follow_interfaces(
    const std::vector<Interface>& interfaces) {
  std::vector<control::DeviceInfo> now = devices();
  fabric::follow_interfaces(now, interfaces);
  std::vector<control::PortEvent> events;
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    const control::DeviceInfo& before = ports_[i]->info();
    if (now[i] == before) continue;
    const bool is_same_table = now[i].gids == before.gids;
    const std::uint32_t changes = is_same_table ? 0u : std::uint32_t{control::kGidsChanged};
    ports_[i]->set_info(now[i]);
    shadow_.write_port(now[i]);
    events.push_back({changes, now[i]});
  }
  return events;
}

}  // namespace verbena::fabric
