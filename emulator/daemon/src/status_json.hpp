// SPDX-License-Identifier: BSD-2-Clause
// Writes the state of the emulator as the JSON objects from which `verbena status` makes one
// document, each in one line. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "status_stream.hpp"
#include "verbena/control/messages.hpp"
#include "verbena/control/status_messages.hpp"
#include "verbena/fabric/fault_table.hpp"
#include "verbena/fabric/rule_table.hpp"
#include "verbena/fabric/totals.hpp"

namespace verbena::daemon {

struct FaultStatus {
  control::FaultSpec spec;
  bool ended = false;
  fabric::FaultTotals totals{};
};

struct RuleStatus {
  control::RuleSpec spec;
  bool has_seed = false;
  fabric::RuleTotals totals;
};

struct CmIdOfProcess {
  fabric::CmIdStatus id;
  std::uint32_t pid = 0;
  std::string comm;
};

struct EmulatorStatus {
  std::string version;
  std::uint32_t pid = 0;
  std::string runtime_dir;
  bool ends_when_idle = false;
};

// Leaves out what follows in objects of its own: rules, rdma_cm IDs, devices, faults, contexts,
// queue pairs, completion queues, shared receive queues.
std::string json_of(const EmulatorStatus& status);
std::string json_of(const control::DeviceInfo& device, const fabric::Totals& totals);
std::string json_of(const ContextStatus& context);
std::string json_of(const FaultStatus& fault);
std::string json_of(const RuleStatus& rule);
std::string json_of(const CmIdOfProcess& id);
std::string json_of(const control::QpStatus& qp);
std::string json_of(const control::CqStatus& cq);
std::string json_of(const control::SrqStatus& srq);
// `is_complete` says that the context has told all of its objects.
std::string json_of_context_end(bool is_complete);

}  // namespace verbena::daemon
