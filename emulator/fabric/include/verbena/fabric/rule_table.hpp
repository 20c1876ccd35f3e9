// SPDX-License-Identifier: BSD-2-Clause
// The rules of scripted faults that are set, for all devices of an emulator. Every context is told
// each rule, and knows whether it concerns its program. What rules did in contexts is added up
// here. Pure; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "verbena/control/error.hpp"
#include "verbena/control/messages.hpp"
#include "verbena/control/stats_page.hpp"
#include "verbena/fault/script.hpp"

namespace verbena::fabric {

struct RuleTotals {
  std::uint64_t matched = 0;
  std::uint64_t fired = 0;
};

class RuleTable {
 public:
  struct Entry {
    control::RuleSpec spec;
    fault::Rule rule;
    RuleTotals retired;  // counts of contexts that are gone
  };

  // Adds rules behind the existing ones, all or none. Their seed is `seed`, else that of the
  // existing rules, else `fresh_seed`.
  control::Outcome<control::Done> add(const std::vector<std::string>& lines,
                                      std::optional<std::uint64_t> seed, std::uint64_t fresh_seed);
  // Removes, for each line, the rule that was added last with this text, all or none.
  control::Outcome<control::Done> remove(const std::vector<std::string>& lines);
  // Removes rules about data (what programs send) or about connection management, of one device or
  // (empty) of all.
  void clear(bool data, bool cm, const std::string& device);
  // Sets the seed of all rules with chances. Returns false if there are none.
  bool set_seed(std::uint64_t seed);
  // Returns the seed of rules with chances, if there are any.
  std::optional<std::uint64_t> seed() const;

  const std::vector<Entry>& all() const { return entries_; }
  std::vector<control::RuleSpec> in_force() const;
  // Returns the rules about the emulator's own datagrams from this device. They count in `page`.
  std::vector<fault::ActiveRule> of_management(const std::string& device, TimeNs now,
                                               control::StatsPage& page) const;
  // Returns null if the rule was removed.
  const Entry* find(std::uint64_t id) const;
  // Notes that a rule's event (fault::is_event) happened once, to so many processes or ports.
  void note_event(std::uint64_t id, std::uint64_t matched);
  // Keeps the counts of a context that ends.
  void retire(const control::StatsPage& page);

 private:
  std::vector<Entry> entries_;
  std::uint64_t next_id_ = 1;
};

// Adds what one page has counted for a rule.
void add_counted(const control::StatsPage& page, const control::RuleSpec& spec, RuleTotals& totals);

}  // namespace verbena::fabric
