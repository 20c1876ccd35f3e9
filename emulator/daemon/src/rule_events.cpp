// SPDX-License-Identifier: BSD-2-Clause
#include "rule_events.hpp"

#include <utility>

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
    if (is_there(entry.rule)) start(entry);
  }
}

void RuleEvents::start(const fabric::RuleTable::Entry& entry) {
  const std::uint64_t id = entry.spec.id;
  const auto timer = loop_.after(entry.rule.after, [this, id] {
    clocks_.at(id).has_ended = true;
    perform_(id);
  });
  clocks_.emplace(id, Clock{timer, false});
}

}  // namespace verbena::daemon
