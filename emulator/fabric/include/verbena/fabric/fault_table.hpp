// SPDX-License-Identifier: BSD-2-Clause
// The faults that are set on one device: for every queue pair, for single ones, and for connection
// management. A change names some of a fault's values and leaves the others; what a single queue
// pair's fault does not name is as in the one for every queue pair. Pure; one thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "verbena/base/fault_counters.hpp"
#include "verbena/control/error.hpp"
#include "verbena/control/messages.hpp"
#include "verbena/control/stats_page.hpp"

namespace verbena::fabric {

using FaultTotals = std::array<std::uint64_t, kFaultCounters>;

class FaultTable {
 public:
  struct Fault {
    control::FaultSpec spec;  // its own values, of which those count that are named
    std::uint32_t named = 0;  // control::FaultField
    bool ended = false;       // of a queue pair whose program has ended
    FaultTotals retired{};    // counted by contexts that are no more
  };

  // New faults get `fresh_seed` where no seed is named. The seed of what was changed; none if
  // nothing is left of it.
  control::Outcome<std::optional<std::uint64_t>> change(const control::ChangeFault& change,
                                                        std::uint64_t fresh_seed);

  // What contexts, and the daemon's own QP1, are to do now.
  std::vector<control::FaultSpec> in_force() const;
  const std::vector<Fault>& all() const { return faults_; }
  control::FaultSpec in_force(const Fault& fault) const;

  // A context ends: what it has counted stays, and so do the faults of its queue pairs, for whoever
  // wants to know what they did. They strike nobody who gets their numbers.
  void retire(const control::StatsPage& page);
  void end_queue_pairs_of(std::uint32_t slot);

 private:
  Fault* find(std::uint32_t qpn);
  const Fault* find(std::uint32_t qpn) const { return const_cast<FaultTable*>(this)->find(qpn); }
  control::Outcome<Fault*> find_or_add(std::uint32_t qpn, std::uint64_t seed);
  void forget_what_does_nothing();

  std::vector<Fault> faults_;
  std::uint64_t next_id_ = 1;
};

// What one page has counted of a fault.
void add_counted(const control::StatsPage& page, const control::FaultSpec& spec,
                 FaultTotals& totals);

}  // namespace verbena::fabric
