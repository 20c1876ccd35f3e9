// SPDX-License-Identifier: BSD-2-Clause
#include "run_faults.hpp"

#include <utility>

#include "verbena/link/seed.hpp"

namespace verbena::cli {

using control::ChangeFault;
using control::Outcome;

Outcome<RunFaults> RunFaults::from(const FaultOptions& options) {
  auto change = options.change();
  if (!change) return Failure<control::Error>{change.error()};
  RunFaults faults(std::move(*change));
  if ((faults.change_.named & control::kFaultSeed) == 0) {
    faults.change_.seed = link::random_seed();
    faults.change_.named |= control::kFaultSeed;
    faults.is_seed_chosen_here_ = true;
  }
  return faults;
}

Outcome<control::Done> RunFaults::begin(RunScene& scene) {
  const auto changed = scene.emulator.channel.call<control::FaultChanged>(change_);
  if (!changed) return Failure<control::Error>{changed.error()};
  return control::Done{};
}

}  // namespace verbena::cli
