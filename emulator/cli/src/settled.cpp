// SPDX-License-Identifier: BSD-2-Clause
#include "settled.hpp"

#include <utility>

namespace verbena::cli {

void Settled::look(const std::vector<Process>& processes, TimeNs now) {
  std::set<pid_t> pids;
  std::uint64_t cpu = 0;
  for (const Process& process : processes) {
    pids.insert(process.pid);
    cpu += process.cpu;
  }
  const bool is_at_rest = pids == pids_ && cpu == cpu_ && !any_is_busy(processes);
  if (!is_at_rest || since_ == 0) since_ = now;
  pids_ = std::move(pids);
  cpu_ = cpu;
}

}  // namespace verbena::cli
