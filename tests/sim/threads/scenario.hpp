// SPDX-License-Identifier: BSD-2-Clause
// One run: processors, programs with threads of all kinds, traffic between them and from outside,
// and then a quiet time in which no thread may wake up.
#pragma once

#include <cstdint>
#include <string>

namespace verbena::threads {

struct RunOptions {
  bool trace = false;
  // What is taken away if false (MachineOptions).
  bool has_fences = true;
  bool has_kicks = true;
};

struct RunReport {
  std::string failure;  // empty: all held
  std::string description;
  std::uint64_t messages = 0;
  std::uint64_t steps = 0;
  std::uint64_t wake_ups = 0;
  // The longest waits, in thousandths of what is allowed.
  std::uint64_t worst_attended = 0;
  std::uint64_t worst_unattended = 0;
};

RunReport run_seed(std::uint64_t seed, const RunOptions& options);

}  // namespace verbena::threads
