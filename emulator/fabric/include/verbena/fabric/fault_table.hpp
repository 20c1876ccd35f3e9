// SPDX-License-Identifier: BSD-2-Clause
// The faults that are set on one device: for every queue pair, for single ones, and for connection
// management. A change sets the values that it names and leaves the others. A single queue pair's
// fault takes the values that it does not name from the fault for every queue pair. Pure; one
// thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "verbena/base/fault_counters.hpp"
#include "verbena/control/error.hpp"
#include "verbena/control/messages.hpp"
#include "verbena/control/stats_page.hpp"

namespace verbena::fabric {

using FaultTotals = std::array<std::uint64_t, kFaultCounters>;
using Seeds = std::set<std::uint64_t>;

class FaultTable {
 public:
  struct Fault {
    control::FaultSpec spec;  // own values; only the values in `named` count
    std::uint32_t named = 0;  // control::FaultField
    bool ended = false;       // the queue pair is gone
    FaultTotals retired{};    // counts of contexts that are gone
  };

  // Changes faults, all or none. New ones get `fresh_seed` if the change names no seed. Returns the
  // seeds of the changed faults that are left. Fails with ENOENT if the change is only a seed, and
  // no fault is there that it could be for.
  control::Outcome<Seeds> change(const control::ChangeFault& change, std::uint64_t fresh_seed);

  // Returns the faults that contexts, and the daemon's own QP1, must apply now.
  std::vector<control::FaultSpec> in_force() const;
  const std::vector<Fault>& all() const { return faults_; }
  control::FaultSpec in_force(const Fault& fault) const;

  // Handle the end of a context. Its counts are kept, and the faults of its queue pairs stay in the
  // table so that users can see what they did. They do not affect new owners of the numbers.
  void retire(const control::StatsPage& page);
  void end_queue_pairs_of(std::uint32_t slot);
  // Handles the end of one queue pair in the same way. Returns whether it had a fault.
  bool end_queue_pair(std::uint32_t qpn);

 private:
  Fault* find(std::uint32_t qpn);
  const Fault* find(std::uint32_t qpn) const { return const_cast<FaultTable*>(this)->find(qpn); }
  std::vector<std::uint32_t> aims_of(const control::ChangeFault& change) const;
  bool has_room_for(const std::vector<std::uint32_t>& aims) const;
  Fault& find_or_add(std::uint32_t qpn, std::uint64_t seed);
  void forget_what_does_nothing();

  std::vector<Fault> faults_;
  std::uint64_t next_id_ = 1;
};

// Adds what one page has counted for a fault.
void add_counted(const control::StatsPage& page, const control::FaultSpec& spec,
                 FaultTotals& totals);

}  // namespace verbena::fabric
