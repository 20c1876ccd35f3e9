// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/cm_service/ruled_calls.hpp"

#include <algorithm>
#include <string>

#include "verbena/base/failing_calls.hpp"
#include "verbena/control/cm_functions.hpp"
#include "verbena/control/fault_settings.hpp"

namespace verbena::cm_service {

std::vector<fault::ActiveRule> RuledCalls::rules_for(fabric::ClientId client, TimeNs now) const {
  control::StatsPage& page = fabric_.ports().front()->own_counters();
  std::vector<fault::ActiveRule> rules;
  for (const fabric::RuleTable::Entry& entry : fabric_.rules().all()) {
    const fault::Rule& rule = entry.rule;
    if (!rule.is_of_librdmacm()) continue;
    if (!rule.program.empty() && !clients_.is_called(client, rule.program)) continue;
    rules.push_back(control::activate(entry.spec, rule, now, &page));
  }
  return rules;
}

void RuledCalls::follow_rules(TimeNs now) {
  for (auto& [pid, process] : processes_) {
    process.script.set_rules(rules_for(*process.clients.begin(), now));
  }
}

bool RuledCalls::names(std::string_view function) const {
  return std::ranges::any_of(fabric_.rules().all(),
                             [function](const auto& entry) { return entry.rule.call == function; });
}

std::optional<control::Error> RuledCalls::judge(fabric::ClientId client,
                                                std::span<const std::uint8_t> command, TimeNs now) {
  const std::string_view function = control::function_of_cm_command(command);
  const fabric::ClientInfo* const info = clients_.info(client);
  if (function.empty() || info == nullptr) return std::nullopt;
  const auto [process, is_new] = processes_.try_emplace(info->pid);
  if (is_new) process->second.script.set_rules(rules_for(client, now));
  process->second.clients.insert(client);
  const int error = process->second.script.judge({function, 0, Qpn{}, now});
  if (error == 0) return std::nullopt;
  return control::Error{error, std::string(function) + ": fails with " +
                                   std::string(error_of_value(error)->name) +
                                   ", as a rule (fail=) asks"};
}

void RuledCalls::forget(fabric::ClientId client) {
  for (auto& [pid, process] : processes_) process.clients.erase(client);
  std::erase_if(processes_, [](const auto& entry) { return entry.second.clients.empty(); });
}

}  // namespace verbena::cm_service
