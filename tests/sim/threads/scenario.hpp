// SPDX-License-Identifier: BSD-2-Clause
// One run: processors, programs with threads of all kinds, traffic between them and from outside;
// then quiet, in which nobody may wake up.
#pragma once

#include <cstdint>
#include <string>

namespace verbena::threads {

struct RunOptions {
  bool trace = false;
  // Taken away (MachineOptions).
  bool has_fences = true;
  bool has_kicks = true;
  bool has_timers = true;
};

struct RunReport {
  std::string failure;  // empty: all held
  std::string description;
  std::uint64_t messages = 0;
  std::uint64_t steps = 0;
  std::uint64_t wake_ups = 0;
  // Of a thousand parts of what is allowed.
  std::uint64_t worst_attended = 0;
  std::uint64_t worst_unattended = 0;
};

RunReport run_seed(std::uint64_t seed, const RunOptions& options);

}  // namespace verbena::threads
