// SPDX-License-Identifier: BSD-2-Clause
// The rules of scripted faults that are set, for all devices of an emulator. Each is told to every
// context, which knows whether it is about its program; what they did there is added up here. Pure;
// one thread.
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
    RuleTotals retired;  // counted by contexts that are no more
  };

  // Behind those that there are, all or none. Their seed: `seed`, else that of the others, else
  // `fresh_seed`.
  control::Outcome<control::Done> add(const std::vector<std::string>& lines,
                                      std::optional<std::uint64_t> seed, std::uint64_t fresh_seed);
  // Of what programs send, and of what connection management sends; of one device, or (empty) all.
  void clear(bool data, bool cm, const std::string& device);
  // Of those that have chances; false if there are none.
  bool set_seed(std::uint64_t seed);
  // Theirs, if there are any.
  std::optional<std::uint64_t> seed() const;

  const std::vector<Entry>& all() const { return entries_; }
  std::vector<control::RuleSpec> in_force() const;
  // Those about the emulator's own datagrams from this device, which count into the page.
  std::vector<fault::ActiveRule> of_management(const std::string& device, TimeNs now,
                                               control::StatsPage& page) const;
  // Null: it was taken away.
  const Entry* find(std::uint64_t id) const;
  // What happened to so many processes or ports (fault::is_event), once.
  void note_event(std::uint64_t id, std::uint64_t matched);
  // A context ends: what it has counted stays.
  void retire(const control::StatsPage& page);

 private:
  std::vector<Entry> entries_;
  std::uint64_t next_id_ = 1;
};

// What one page has counted of a rule.
void add_counted(const control::StatsPage& page, const control::RuleSpec& spec, RuleTotals& totals);

}  // namespace verbena::fabric
