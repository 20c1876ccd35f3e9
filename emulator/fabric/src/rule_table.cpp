// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/fabric/rule_table.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <utility>

#include "verbena/control/fault_settings.hpp"

namespace verbena::fabric {

using control::fail;
using control::Outcome;
using control::RuleSpec;

void add_counted(const control::StatsPage& page, const RuleSpec& spec, RuleTotals& totals) {
  const control::RulePart& part = page.rules[spec.place];
  if (part.id.read() != spec.id) return;
  totals.matched += part.counters.matched();
  totals.fired += part.counters.fired();
}

Outcome<control::Done> RuleTable::add(const std::vector<std::string>& lines,
                                      std::optional<std::uint64_t> named_seed,
                                      std::uint64_t fresh_seed) {
  if (entries_.size() + lines.size() > control::kRulesMost) {
    return fail(ENOSPC, "there may be " + std::to_string(control::kRulesMost) +
                            " rules at a time; take some away: verbena fault --clear");
  }
  std::array<bool, control::kRulesMost> taken{};
  for (const Entry& entry : entries_) taken[entry.spec.place] = true;
  std::vector<Entry> added;
  for (const std::string& line : lines) {
    auto rule = fault::parse_rule(line);
    if (!rule) return fail(EINVAL, rule.error());
    auto* const free = std::ranges::find(taken, false);
    *free = true;
    Entry entry;
    entry.rule = std::move(*rule);
    entry.spec.place = static_cast<std::uint32_t>(free - taken.begin());
    entry.spec.id = next_id_++;
    entry.spec.text = fault::to_string(entry.rule);
    if (entry.rule.needs_seed()) {
      entry.spec.seed = named_seed ? *named_seed : seed().value_or(fresh_seed);
    }
    added.push_back(std::move(entry));
  }
  std::ranges::move(added, std::back_inserter(entries_));
  return control::Done{};
}

Outcome<control::Done> RuleTable::remove(const std::vector<std::string>& lines) {
  std::vector<Entry> left = entries_;
  for (const std::string& line : lines) {
    const auto rule = fault::parse_rule(line);
    if (!rule) return fail(EINVAL, rule.error());
    const std::string text = fault::to_string(*rule);
    const auto last = std::find_if(left.rbegin(), left.rend(),
                                   [&text](const Entry& entry) { return entry.spec.text == text; });
    if (last == left.rend()) {
      return fail(ENOENT,
                  "there is no rule '" + text + "'; `verbena status` shows those that are set");
    }
    left.erase(std::next(last).base());
  }
  entries_ = std::move(left);
  return control::Done{};
}

void RuleTable::clear(bool data, bool cm, const std::string& device) {
  std::erase_if(entries_, [&](const Entry& entry) {
    if (!device.empty() && entry.rule.device != device) return false;
    return entry.rule.is_management() ? cm : data;
  });
}

bool RuleTable::set_seed(std::uint64_t seed) {
  bool is_any = false;
  for (Entry& entry : entries_) {
    if (!entry.rule.needs_seed()) continue;
    entry.spec.seed = seed;
    is_any = true;
  }
  return is_any;
}

std::optional<std::uint64_t> RuleTable::seed() const {
  for (const Entry& entry : entries_) {
    if (entry.rule.needs_seed()) return entry.spec.seed;
  }
  return std::nullopt;
}

std::vector<RuleSpec> RuleTable::in_force() const {
  std::vector<RuleSpec> specs;
  for (const Entry& entry : entries_) specs.push_back(entry.spec);
  return specs;
}

std::vector<fault::ActiveRule> RuleTable::of_management(const std::string& device, TimeNs now,
                                                        control::StatsPage& page) const {
  std::vector<fault::ActiveRule> active;
  for (const Entry& entry : entries_) {
    if (!entry.rule.is_management()) continue;
    if (!entry.rule.device.empty() && entry.rule.device != device) continue;
    active.push_back(control::activate(entry.spec, entry.rule, now, &page));
  }
  return active;
}

const RuleTable::Entry* RuleTable::find(std::uint64_t id) const {
  const auto found =
      std::ranges::find_if(entries_, [id](const Entry& entry) { return entry.spec.id == id; });
  return found == entries_.end() ? nullptr : &*found;
}

void RuleTable::note_event(std::uint64_t id, std::uint64_t matched) {
  for (Entry& entry : entries_) {
    if (entry.spec.id != id) continue;
    entry.retired.matched += matched;
    entry.retired.fired += matched != 0;
  }
}

void RuleTable::retire(const control::StatsPage& page) {
  for (Entry& entry : entries_) add_counted(page, entry.spec, entry.retired);
}

}  // namespace verbena::fabric
