// One run of the simulation: what a seed means, and whether it went well.
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

// Everything follows from the seed. `trace` prints packets and explanations.
RunReport run_seed(std::uint64_t seed, bool trace);

}  // namespace verbena::sim
