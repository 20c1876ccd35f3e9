// SPDX-License-Identifier: BSD-2-Clause
// Says what the run's own programs wait for when the time is up (--timeout), because a time
// limit is set for programs that may hang.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "run_options.hpp"
#include "run_part.hpp"

namespace verbena::cli {

class WaitsAtTimeLimit final : public RunPart {
 public:
  // `explanations` is a file that gets the same lines, or null. Both live as long as this object.
  WaitsAtTimeLimit(const RunOptions& options, std::FILE* explanations)
      : options_(options), explanations_(explanations) {}

  control::Outcome<control::Done> begin(RunScene&) override { return control::Done{}; }
  // Looks, and says nothing yet, because a slow reader of our output must not delay the end of the
  // programs.
  void time_is_up(RunScene& scene) override;
  int end(RunScene& scene, int exit_code) override;

 private:
  void look(RunScene& scene, const std::vector<Process>& programs);

  const RunOptions& options_;
  std::FILE* explanations_;
  std::vector<std::string> said_;
};

}  // namespace verbena::cli
