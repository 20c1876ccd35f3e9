// SPDX-License-Identifier: BSD-2-Clause
// All devices of one emulator and their shadow in the file system: the root of all objects except
// the clients. One thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verbena/control/error.hpp"
#include "verbena/control/messages.hpp"
#include "verbena/fabric/interfaces.hpp"
#include "verbena/fabric/port.hpp"
#include "verbena/fabric/rule_table.hpp"
#include "verbena/fabric/shadow_tree.hpp"
#include "verbena/link/source_ports.hpp"

namespace verbena::fabric {

class Fabric {
 public:
  // Opens the sockets, then shows the devices under `shadow_root`.
  static control::Outcome<std::unique_ptr<Fabric>> open(
      const std::vector<control::DeviceInfo>& devices, const std::string& shadow_root,
      Poller& poller, limits::FairShare& descriptors);
  ~Fabric();

  const std::vector<std::unique_ptr<Port>>& ports() const { return ports_; }
  std::vector<control::DeviceInfo> devices() const;
  // Returns null if no device has this name.
  Port* find(std::string_view name);
  // Returns the error for a name that find() did not find. It lists the existing devices.
  control::Error no_such_device(std::string_view name) const;

  // The rules of scripted faults. A change takes effect for the daemon's own packets with each
  // port's apply_own_faults(). The server tells the contexts.
  RuleTable& rules() { return rules_; }
  // Returns what a rule did on all devices since it was set.
  RuleTotals totals_of(const RuleTable::Entry& entry) const;

  // Writes the counters of one device, or of all (empty name), into the shadow.
  void refresh_counters(std::string_view name);
  // Returns the event to send to clients. Its `changes` are 0 if the port was already in that
  // state.
  control::PortEvent set_port_state(Port& port, bool up);
  // Takes the host's current interfaces. Returns events to send to clients, for ports that changed.
  std::vector<control::PortEvent> follow_interfaces(const std::vector<Interface>& interfaces);
  // Shows the devices again after the shadow was removed.
  control::Outcome<control::Done> restore_shadow() { return shadow_.create(devices()); }
  // Must be called if another emulator may show its devices there.
  void give_shadow_up() { shadow_.give_up(); }

 private:
  Fabric(link::SourcePorts source_ports, const std::string& shadow_root)
      : source_ports_(std::move(source_ports)), shadow_(shadow_root) {}

  link::SourcePorts source_ports_;
  RuleTable rules_;
  std::vector<std::unique_ptr<Port>> ports_;
  ShadowTree shadow_;
};

}  // namespace verbena::fabric
