// SPDX-License-Identifier: BSD-2-Clause
// Sets faults before the program sends its first packet: `verbena run --private --loss`. At the end
// it tells how often each of the rules among them has fired.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "run_options.hpp"
#include "run_part.hpp"
#include "verbena/control/messages.hpp"

namespace verbena::cli {

// The exit code of `run --require-fired` if a rule never fired.
inline constexpr int kNeverFired = 3;

class RunFaults final : public RunPart {
 public:
  static control::Outcome<RunFaults> from(const RunOptions& options);

  // Returns the seed, which is chosen here if the user gave none.
  std::uint64_t seed() const { return change_.seed; }
  bool is_seed_chosen_here() const { return is_seed_chosen_here_; }
  control::Outcome<control::Done> begin(RunScene& scene) override;
  // Sets the file that gets each complaint about --require-fired, too; null: none. It lives as long
  // as this object.
  void explain_in(std::FILE* explanations) { explanations_ = explanations; }
  // With --require-fired a rule that never fired is a failure (exit code 3).
  int end(RunScene& scene, int exit_code) override;

 private:
  // Says why nobody can say which rules fired. Returns the exit code.
  int end_unknown(RunScene& scene, const std::string& text, int exit_code) const;
  // Says of what --require-fired complains. Returns the exit code.
  int fail(const std::string& text, int exit_code) const;
  RunFaults(control::ChangeFault change, bool is_quiet, bool requires_fired)
      : change_(std::move(change)), is_quiet_(is_quiet), requires_fired_(requires_fired) {}

  control::ChangeFault change_;
  bool is_seed_chosen_here_ = false;
  bool is_quiet_;
  bool requires_fired_;
  std::FILE* explanations_ = nullptr;
};

}  // namespace verbena::cli
