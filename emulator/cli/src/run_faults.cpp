// SPDX-License-Identifier: BSD-2-Clause
#include "run_faults.hpp"

#include <string>

#include "command.hpp"

namespace verbena::cli {

using control::ChangeFault;
using control::Outcome;

Outcome<RunFaults> RunFaults::from(const FaultOptions& options) {
  auto change = options.change();
  if (!change) return Failure<control::Error>{change.error()};
  return RunFaults(std::move(*change), options.seed.empty());
}

Outcome<control::Done> RunFaults::begin(Emulator& emulator) {
  const auto changed = emulator.channel.call<control::FaultChanged>(change_);
  if (!changed) return Failure<control::Error>{changed.error()};
  change_.seed = changed->seed;
  return control::Done{};
}

int RunFaults::end(Emulator&, int exit_code) {
  if (exit_code != 0 && is_seed_chosen_here_) {
    complain("the same packets meet the same faults again with --seed " +
             std::to_string(change_.seed));
  }
  return exit_code;
}

}  // namespace verbena::cli
