// SPDX-License-Identifier: BSD-2-Clause
// Lets calls of librdmacm fail where a rule of scripted faults says so (fail=). Counts the calls of
// each process over all its channels. Owned by CmService, on its thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "verbena/control/error.hpp"
#include "verbena/fabric/extension.hpp"
#include "verbena/fabric/fabric.hpp"
#include "verbena/fault/call_script.hpp"

namespace verbena::cm_service {

class RuledCalls {
 public:
  RuledCalls(fabric::Fabric& fabric, fabric::Clients& clients)
      : fabric_(fabric), clients_(clients) {}

  void follow_rules(TimeNs now);
  // Returns true if a rule is about this function.
  bool names(std::string_view function) const;
  // Returns the error with which a command of this client fails, if it does. Must be called before
  // the command is carried out.
  std::optional<control::Error> judge(fabric::ClientId client,
                                      std::span<const std::uint8_t> command, TimeNs now);
  void forget(fabric::ClientId client);

 private:
  struct Process {
    std::set<fabric::ClientId> clients;  // connections over which it sends commands
    fault::CallScript script;
  };

  std::vector<fault::ActiveRule> rules_for(fabric::ClientId client, TimeNs now) const;

  fabric::Fabric& fabric_;
  fabric::Clients& clients_;
  std::map<std::uint32_t, Process> processes_;  // by process number
};

}  // namespace verbena::cm_service
