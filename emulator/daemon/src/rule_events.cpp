// SPDX-License-Identifier: BSD-2-Clause
#include "rule_events.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace verbena::daemon {

void RuleEvents::follow(const fabric::RuleTable& rules, const IsThere& is_there) {
  for (auto at = clocks_.begin(); at != clocks_.end();) {
    if (rules.find(at->first) != nullptr) {
      ++at;
      continue;
    }
    if (!at->second.has_ended) loop_.cancel(at->second.timer);
    at = clocks_.erase(at);
  }
  for (const fabric::RuleTable::Entry& entry : rules.all()) {
    if (!entry.rule.is_event() || clocks_.contains(entry.spec.id)) continue;
    if (is_there(entry.rule)) start(entry.spec.id, entry.rule.after);
  }
}

void RuleEvents::start(std::uint64_t id, TimeNs after) {
  const auto timer = loop_.after(after, [this, id] {
    clocks_.at(id).has_ended = true;
    perform_(id);
  });
  clocks_.insert_or_assign(id, Clock{timer, false});
}

std::optional<std::uint64_t> RuleEvents::take_answer(std::uint32_t question, std::uint64_t owner) {
  const auto found = asked_.find(question);
  if (found == asked_.end() || found->second.owner != owner) return std::nullopt;
  const std::uint64_t rule = found->second.rule;
  asked_.erase(found);
  return rule;
}

void RuleEvents::forget_owner(std::uint64_t owner) {
  std::vector<std::uint64_t> rules;
  std::erase_if(asked_, [&](const auto& entry) {
    if (entry.second.owner != owner) return false;
    rules.push_back(entry.second.rule);
    return true;
  });
  for (const std::uint64_t rule : rules) perform_again(rule);
}

void RuleEvents::perform_again(std::uint64_t rule) {
  const auto is_of_it = [rule](const auto& entry) { return entry.second.rule == rule; };
  const auto clock = clocks_.find(rule);
  if (clock == clocks_.end() || !clock->second.has_ended) return;
  if (std::ranges::none_of(asked_, is_of_it)) start(rule, kAgainNs);
}

}  // namespace verbena::daemon
