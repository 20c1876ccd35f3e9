// SPDX-License-Identifier: BSD-2-Clause
// What rules let happen once: to a port, or to the processes of a program.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <csignal>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "journal_json.hpp"
#include "server.hpp"
#include "verbena/control/event_messages.hpp"

namespace verbena::daemon {
namespace {

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

std::vector<Session*> Server::contexts_of(const fault::Rule& rule) const {
  std::map<std::uint32_t, bool> is_meant;  // by process
  std::vector<Session*> contexts;
  for (const auto& [key, session] : clients_.contexts()) {
    if (!rule.device.empty() && key.first->info().name != rule.device) continue;
    const auto [known, is_new] = is_meant.try_emplace(session->info.pid, true);
    if (is_new && !rule.program.empty())
      known->second = clients_.is_called(session->id, rule.program);
    if (known->second) contexts.push_back(session);
  }
  return contexts;
}

std::set<std::uint32_t> Server::processes_of(const fault::Rule& rule) const {
  std::set<std::uint32_t> pids;
  for (const Session* const context : contexts_of(rule)) pids.insert(context->info.pid);
  return pids;
}

void Server::follow_rule_events() {
  rule_events_.follow(fabric_.rules(), [this](const fault::Rule& rule) {
    return rule.program == fault::kEmulatorName ? !clients_.contexts().empty()
                                                : !contexts_of(rule).empty();
  });
}

// To how many it has happened by now; of queues, the contexts will say.
std::uint64_t Server::raise_for(std::uint64_t id, const fault::Rule& rule) {
  const bool is_of_queue = rule.qp || rule.place != 0;
  for (Session* const context : contexts_of(rule)) {
    control::RaiseEvent request;
    request.device = context->context->port->info().name;
    request.event = static_cast<control::RaisedEvent>(rule.raised);
    if (rule.qp) request.number = rule.qp->value();
    if (rule.is_of_srq) {
      request.number = control::plain_srq_number(context->context->slot, rule.place);
    } else {
      request.place = rule.place;
    }
    const std::uint32_t question = clients_.next_sequence();
    if (is_of_queue) rule_events_.note_asked(question, id, context->id);
    context->send(request, question);
  }
  return is_of_queue ? 0 : processes_of(rule).size();
}

void Server::note_rule_event(std::uint64_t id, bool has_happened) {
  const fabric::RuleTable::Entry* const entry = fabric_.rules().find(id);
  if (entry == nullptr) return;
  if (has_happened) return fabric_.rules().note_event(id, 1);
  if (entry->retired.fired == 0) rule_events_.perform_again(id);
}

void Server::perform_rule_event(std::uint64_t id) {
  const fabric::RuleTable::Entry* const entry = fabric_.rules().find(id);
  if (entry == nullptr || ending_) return;
  const fault::Rule rule = entry->rule;
  const std::string text = entry->spec.text;
  spdlog::info("the time has come for: {}", text);
  std::uint64_t matched = 0;
  if (rule.action == fault::Action::kRaise) {
    matched = raise_for(id, rule);
  } else if (rule.action == fault::Action::kPortDown || rule.action == fault::Action::kPortUp) {
    for (const auto& port : fabric_.ports()) {
      if (!rule.device.empty() && port->info().name != rule.device) continue;
      change_port_state(*port, rule.action == fault::Action::kPortUp);
      ++matched;
    }
  } else if (rule.program == fault::kEmulatorName) {
    ::kill(::getpid(), SIGKILL);
  } else {
    for (const std::uint32_t pid : processes_of(rule)) {
      matched += ::kill(static_cast<pid_t>(pid), signal_of(rule.action)) == 0;
    }
  }
  fabric_.rules().note_event(id, matched);
  note(json_of_rule(text, rule.device, matched));
}

}  // namespace verbena::daemon
