// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/fault/call_script.hpp"

#include <algorithm>
#include <utility>

#include "verbena/base/random.hpp"
#include "verbena/fault/hash.hpp"

namespace verbena::fault {
namespace {

bool is_about(const ActiveRule& active, const Call& call) {
  const Rule& rule = active.rule;
  if (rule.call != call.function || !is_in_time(active, call.now)) return false;
  if (rule.place != 0 && rule.place != call.place) return false;
  return !rule.qp || *rule.qp == call.qp;
}

bool strikes(const ActiveRule& active, std::uint64_t place) {
  const Rule& rule = active.rule;
  if (!is_counted(rule, place)) return false;
  if (rule.ppm == 0) return true;
  return Random(hash_of({active.seed, active.hash, place})).chance(rule.ppm);
}

}  // namespace

void CallScript::set_rules(std::vector<ActiveRule> rules) {
  for (ActiveRule& rule : rules) {
    const auto known = std::ranges::find(rules_, rule.id, &ActiveRule::id);
    if (known != rules_.end()) rule.since = known->since;
    if (rule.counters != nullptr && rule.starts_counting) rule.counters->reset();
  }
  rules_ = std::move(rules);
  std::erase_if(calls_, [this](const auto& entry) { return !has(entry.first); });
  for (const ActiveRule& rule : rules_) calls_.try_emplace(rule.id, 0);
}

bool CallScript::names(std::string_view function) const {
  return std::ranges::any_of(
      rules_, [function](const ActiveRule& active) { return active.rule.call == function; });
}

bool CallScript::has(std::uint64_t rule) const {
  return std::ranges::find(rules_, rule, &ActiveRule::id) != rules_.end();
}

int CallScript::judge(const Call& call) {
  int error = 0;
  for (const ActiveRule& active : rules_) {
    if (!is_about(active, call)) continue;
    const std::uint64_t place = ++calls_.at(active.id);
    if (active.counters != nullptr) active.counters->match();
    if (!strikes(active, place)) continue;
    if (active.counters != nullptr) active.counters->fire();
    if (error == 0) error = active.rule.error;
  }
  return error;
}

}  // namespace verbena::fault
