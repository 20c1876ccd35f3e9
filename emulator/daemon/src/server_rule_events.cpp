// SPDX-License-Identifier: BSD-2-Clause
// What rules let happen once: to a port, or to the processes of a program.
#include <spdlog/spdlog.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "server.hpp"

namespace verbena::daemon {
namespace {

// As it was when the process began; empty if nobody tells.
std::string role_of(std::uint32_t pid) {
  constexpr std::string_view kName = "VERBENA_ROLE=";
  std::ifstream file("/proc/" + std::to_string(pid) + "/environ");
  for (std::string word; std::getline(file, word, '\0');) {
    if (word.starts_with(kName)) return word.substr(kName.size());
  }
  return {};
}

bool is_called(const fabric::ClientInfo& client, const std::string& name) {
  return fault::is_called(client.comm, name) || role_of(client.pid) == name;
}

int signal_of(fault::Action action) {
  switch (action) {
    case fault::Action::kStop:
      return SIGSTOP;
    case fault::Action::kCont:
      return SIGCONT;
    default:
      return SIGKILL;
  }
}

}  // namespace

std::set<std::uint32_t> Server::processes_of(const fault::Rule& rule) const {
  std::set<std::uint32_t> pids;
  for (const auto& [key, session] : by_slot_) {
    if (!rule.device.empty() && key.first->info().name != rule.device) continue;
    if (pids.contains(session->info.pid)) continue;
    if (rule.program.empty() || is_called(session->info, rule.program)) {
      pids.insert(session->info.pid);
    }
  }
  return pids;
}

void Server::follow_rule_events() {
  rule_events_.follow(fabric_.rules(),
                      [this](const fault::Rule& rule) { return !processes_of(rule).empty(); });
}

void Server::perform_rule_event(std::uint64_t id) {
  const fabric::RuleTable::Entry* const entry = fabric_.rules().find(id);
  if (entry == nullptr || ending_) return;
  const fault::Rule rule = entry->rule;
  spdlog::info("the time has come for: {}", entry->spec.text);
  std::uint64_t matched = 0;
  if (rule.action == fault::Action::kPortDown || rule.action == fault::Action::kPortUp) {
    for (const auto& port : fabric_.ports()) {
      if (!rule.device.empty() && port->info().name != rule.device) continue;
      change_port_state(*port, rule.action == fault::Action::kPortUp);
      ++matched;
    }
  } else {
    for (const std::uint32_t pid : processes_of(rule)) {
      matched += ::kill(static_cast<pid_t>(pid), signal_of(rule.action)) == 0;
    }
  }
  fabric_.rules().note_event(id, matched);
}

}  // namespace verbena::daemon
