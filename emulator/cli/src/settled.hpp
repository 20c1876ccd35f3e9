// SPDX-License-Identifier: BSD-2-Clause
// Tells whether processes have come to rest: they are the same ones as before, and none of them
// works. On a busy machine processes wait for a processor, which is no rest. Pure except for what
// /proc says of threads.
#pragma once

#include <set>
#include <vector>

#include "process_tree.hpp"
#include "verbena/base/types.hpp"

namespace verbena::cli {

class Settled {
 public:
  // Must be called every now and then.
  void look(const std::vector<Process>& processes, TimeNs now);
  TimeNs for_ns(TimeNs now) const { return now - since_; }

 private:
  std::set<pid_t> pids_;
  std::uint64_t cpu_ = 0;
  TimeNs since_ = 0;
};

}  // namespace verbena::cli
