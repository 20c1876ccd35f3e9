// The state of the emulator as the JSON that `verbena status --json` prints. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "status_round.hpp"
#include "verbena/control/messages.hpp"
#include "verbena/fabric/fault_table.hpp"
#include "verbena/fabric/totals.hpp"

namespace verbena::daemon {

struct ContextStatus {
  std::uint32_t slot = 0;
  std::vector<std::uint32_t> extra_slots;
  std::uint32_t pid = 0;
  std::string comm;
  ContextReport report;
};

struct FaultStatus {
  control::FaultSpec spec;
  bool ended = false;
  fabric::FaultTotals totals{};
};

struct DeviceStatus {
  control::DeviceInfo info;
  fabric::Totals totals;
  std::vector<FaultStatus> faults;
  std::vector<ContextStatus> contexts;
};

struct EmulatorStatus {
  std::string version;
  std::uint32_t pid = 0;
  std::string runtime_dir;
  bool ends_when_idle = false;
  std::vector<DeviceStatus> devices;
};

std::string to_json(const EmulatorStatus& status);

}  // namespace verbena::daemon
