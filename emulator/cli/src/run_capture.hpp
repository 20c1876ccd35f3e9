// SPDX-License-Identifier: BSD-2-Clause
// Captures the packets of a run, from the first one on: `verbena run --capture FILE`.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "run_part.hpp"
#include "verbena/control/unique_fd.hpp"

namespace verbena::cli {

class RunCapture final : public RunPart {
 public:
  // With `longest` the file ends at this size, and no message tells of that.
  RunCapture(std::string file, std::optional<std::uint64_t> longest);

  control::Outcome<control::Done> begin(RunScene& scene) override;
  int end(RunScene& scene, int exit_code) override;

 private:
  std::string file_;
  std::optional<std::uint64_t> longest_;
  pid_t pid_ = 0;
  control::UniqueFd words_;  // what the capture says
  std::string said_;         // what it has said after its first line
};

}  // namespace verbena::cli
