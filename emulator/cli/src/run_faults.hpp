// SPDX-License-Identifier: BSD-2-Clause
// Faults that are there before the program sends its first packet: `verbena run --private --loss`.
#pragma once

#include <cstdint>
#include <utility>

#include "fault_options.hpp"
#include "run_part.hpp"
#include "verbena/control/messages.hpp"

namespace verbena::cli {

class RunFaults final : public RunPart {
 public:
  static control::Outcome<RunFaults> from(const FaultOptions& options);

  control::Outcome<control::Done> begin(Emulator& emulator) override;
  // Names the seed if the run has failed and the seed was not asked for.
  int end(Emulator& emulator, int exit_code) override;

 private:
  RunFaults(control::ChangeFault change, bool is_seed_chosen_here)
      : change_(std::move(change)), is_seed_chosen_here_(is_seed_chosen_here) {}

  control::ChangeFault change_;
  bool is_seed_chosen_here_;
};

}  // namespace verbena::cli
