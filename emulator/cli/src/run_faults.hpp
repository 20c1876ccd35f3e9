// SPDX-License-Identifier: BSD-2-Clause
// Faults that are there before the program sends its first packet: `verbena run --private --loss`.
// At the end, which of the rules among them fired how often.
#pragma once

#include <cstdint>
#include <utility>

#include "run_options.hpp"
#include "run_part.hpp"
#include "verbena/control/messages.hpp"

namespace verbena::cli {

// The exit code of `run --require-fired` where a rule never fired.
inline constexpr int kNeverFired = 3;

class RunFaults final : public RunPart {
 public:
  static control::Outcome<RunFaults> from(const RunOptions& options);

  // Chosen here if nobody did.
  std::uint64_t seed() const { return change_.seed; }
  bool is_seed_chosen_here() const { return is_seed_chosen_here_; }
  control::Outcome<control::Done> begin(RunScene& scene) override;
  // A rule that never fired is a failure (exit code 3) where that was asked for.
  int end(RunScene& scene, int exit_code) override;

 private:
  RunFaults(control::ChangeFault change, bool is_quiet, bool requires_fired)
      : change_(std::move(change)), is_quiet_(is_quiet), requires_fired_(requires_fired) {}

  control::ChangeFault change_;
  bool is_seed_chosen_here_ = false;
  bool is_quiet_;
  bool requires_fired_;
};

}  // namespace verbena::cli
