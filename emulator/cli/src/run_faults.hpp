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

  // Chosen here if nobody did.
  std::uint64_t seed() const { return change_.seed; }
  bool is_seed_chosen_here() const { return is_seed_chosen_here_; }
  control::Outcome<control::Done> begin(RunScene& scene) override;

 private:
  explicit RunFaults(control::ChangeFault change) : change_(std::move(change)) {}

  control::ChangeFault change_;
  bool is_seed_chosen_here_ = false;
};

}  // namespace verbena::cli
