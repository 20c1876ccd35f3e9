// SPDX-License-Identifier: BSD-2-Clause
#include "rule_events.hpp"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "journal_json.hpp"
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

bool is_of_port(const fault::Rule& rule) {
  return rule.action == fault::Action::kPortDown || rule.action == fault::Action::kPortUp;
}

bool is_of_queue(const fault::Rule& rule) { return rule.qp || rule.place != 0; }

}  // namespace

void RuleEvents::follow() {
  std::erase_if(clocks_, [this](const auto& entry) {
    const auto& [rule, clock] = entry;
    if (fabric_.rules().find(rule) != nullptr) return false;
    if (!clock.has_ended) timers_.cancel(clock.timer);
    return true;
  });
  for (const fabric::RuleTable::Entry& entry : fabric_.rules().all()) {
    const fault::Rule& rule = entry.rule;
    if (!rule.is_event() || (clocks_.contains(entry.spec.id) && !is_for_next_opening(entry))) {
      continue;
    }
    if (has_opener(rule)) start(entry.spec.id, rule.after, &RuleEvents::perform);
  }
}

// Returns true if the program that the rule is about has opened a device. For a port or the
// emulator it may be any device.
bool RuleEvents::has_opener(fault::Rule rule) const {
  const bool is_of_emulator = rule.program == fault::kEmulatorName;
  if (is_of_emulator) rule.program.clear();
  if (is_of_emulator || is_of_port(rule)) rule.device.clear();
  return !contexts_of(rule).empty();
}

// Returns true for an event of a queue that did not exist before all programs of the rule had
// closed the device.
bool RuleEvents::is_for_next_opening(const fabric::RuleTable::Entry& entry) const {
  return is_of_queue(entry.rule) && entry.retired.fired == 0 &&
         clocks_.at(entry.spec.id).has_ended && !is_asked(entry.spec.id);
}

bool RuleEvents::is_asked(std::uint64_t rule) const {
  return std::ranges::any_of(asked_,
                             [rule](const auto& entry) { return entry.second.rule == rule; });
}

void RuleEvents::end() {
  for (const auto& [rule, clock] : clocks_) {
    if (!clock.has_ended) timers_.cancel(clock.timer);
  }
  clocks_.clear();
}

void RuleEvents::start(std::uint64_t rule, TimeNs after, void (RuleEvents::*then)(std::uint64_t)) {
  const auto timer = timers_.after(after, [this, rule, then] {
    clocks_.at(rule).has_ended = true;
    (this->*then)(rule);
  });
  clocks_.insert_or_assign(rule, Clock{timer, false});
}

std::vector<Session*> RuleEvents::contexts_of(const fault::Rule& rule) const {
  std::map<std::uint32_t, bool> is_meant;  // keyed by process
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

std::set<std::uint32_t> RuleEvents::processes_of(const fault::Rule& rule) const {
  std::set<std::uint32_t> pids;
  for (const Session* const context : contexts_of(rule)) pids.insert(context->info.pid);
  return pids;
}

void RuleEvents::raise_for(std::uint64_t id, const fault::Rule& rule) {
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
    if (is_of_queue(rule)) asked_[question] = {id, context->id};
    context->send(request, question);
  }
}

// Asks the contexts whether they have the queue. Their answers say whether the event has happened.
void RuleEvents::look_for_queue(std::uint64_t id) {
  const fabric::RuleTable::Entry* const entry = fabric_.rules().find(id);
  if (entry != nullptr && entry->retired.fired == 0) raise_for(id, fault::Rule(entry->rule));
}

void RuleEvents::perform(std::uint64_t id) {
  const fabric::RuleTable::Entry* const entry = fabric_.rules().find(id);
  if (entry == nullptr) return;
  const fault::Rule rule = entry->rule;
  spdlog::info("the time has come for: {}", entry->spec.text);
  if (is_of_queue(rule)) return look_for_queue(id);
  std::uint64_t matched = 0;
  if (rule.action == fault::Action::kRaise) {
    raise_for(id, rule);
    matched = processes_of(rule).size();
  } else if (is_of_port(rule)) {
    for (const auto& port : fabric_.ports()) {
      if (!rule.device.empty() && port->info().name != rule.device) continue;
      set_port_(*port, rule.action == fault::Action::kPortUp);
      ++matched;
    }
  } else if (rule.program == fault::kEmulatorName) {
    ::kill(::getpid(), SIGKILL);
  } else {
    // Pid 0 stands for a process in another PID namespace. kill() would take it for our own group.
    for (const std::uint32_t pid : processes_of(rule)) {
      matched += pid != 0 && ::kill(static_cast<pid_t>(pid), signal_of(rule.action)) == 0;
    }
  }
  note(id, matched);
}

// Counts what has happened to so many processes or ports, and tells it to readers of events.
void RuleEvents::note(std::uint64_t id, std::uint64_t matched) {
  fabric_.rules().note_event(id, matched);
  const fabric::RuleTable::Entry* const entry = fabric_.rules().find(id);
  if (entry != nullptr) {
    journal_.note(json_of_rule(entry->spec.text, entry->rule.device, matched));
  }
}

bool RuleEvents::on_answer(const Session& owner, const control::Incoming& in) {
  const auto asked = asked_.find(in.header.sequence);
  if (asked == asked_.end() || asked->second.owner != owner.id) return false;
  const std::uint64_t rule = asked->second.rule;
  asked_.erase(asked);
  if (in.type() == control::MessageType::kAck) {
    note(rule, 1);
  } else {
    perform_again(rule);
  }
  return true;
}

void RuleEvents::on_client_gone(Session::Id gone) {
  std::vector<std::uint64_t> rules;
  std::erase_if(asked_, [&](const auto& entry) {
    if (entry.second.owner != gone) return false;
    rules.push_back(entry.second.rule);
    return true;
  });
  for (const std::uint64_t rule : rules) perform_again(rule);
}

// Tries again in a moment, unless other contexts are still asked: the queue may be created yet.
void RuleEvents::perform_again(std::uint64_t rule) {
  const auto clock = clocks_.find(rule);
  if (clock == clocks_.end() || !clock->second.has_ended) return;
  if (!is_asked(rule)) start(rule, kAgainNs, &RuleEvents::look_for_queue);
}

}  // namespace verbena::daemon
