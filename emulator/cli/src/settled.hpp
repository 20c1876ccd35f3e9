// SPDX-License-Identifier: BSD-2-Clause
// Whether processes have come to rest: the same ones as before, none of which works. Where the
// machine is busy they wait for their turn, which is no rest. Pure but for what /proc says of
// threads.
#pragma once

#include <set>
#include <vector>

#include "process_tree.hpp"
#include "verbena/base/types.hpp"

namespace verbena::cli {

class Settled {
 public:
  // To be called every now and then.
  void look(const std::vector<Process>& processes, TimeNs now);
  TimeNs for_ns(TimeNs now) const { return now - since_; }

 private:
  std::set<pid_t> pids_;
  std::uint64_t cpu_ = 0;
  TimeNs since_ = 0;
};

}  // namespace verbena::cli
