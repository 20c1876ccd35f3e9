// SPDX-License-Identifier: BSD-2-Clause
// Another command of `verbena` in a process of its own, beside a run: `verbena capture`, `verbena
// status`. It has a process group of its own, so that Ctrl-C does not reach it, and gets SIGINT
// when we end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace verbena::cli {

struct OwnCommand {
  std::vector<std::string> words;
  std::string runtime_dir;
  int out = -1;  // -1: ours
  int err = -1;
  std::optional<std::uint64_t> longest_file;
};

// Returns -1 and sets errno if the process cannot be started.
pid_t start_own_command(const OwnCommand& command);

}  // namespace verbena::cli
