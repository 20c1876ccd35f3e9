// SPDX-License-Identifier: BSD-2-Clause
// One run of the simulation: what the seed chooses, and whether the run went well.
#pragma once

#include <cstdint>
#include <string>

namespace verbena::sim {

struct RunReport {
  bool ok = true;
  std::string failure;      // what was wrong
  std::string description;  // what the seed chose
  std::uint64_t packets = 0;
  std::uint64_t lost = 0;
  std::uint64_t operations = 0;
};

struct RunOptions {
  bool trace = false;  // prints packets and explanations
  bool hard = false;   // drops, duplicates and reorders 15% of all packets each, in every run
};

// Plays one run. Everything follows from the seed and `hard`.
RunReport run_seed(std::uint64_t seed, const RunOptions& options);

}  // namespace verbena::sim
