// SPDX-License-Identifier: BSD-2-Clause
// What `verbena run` was asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "command.hpp"
#include "fault_options.hpp"
#include "verbena/base/types.hpp"

namespace verbena::cli {

struct RunOptions {
  DeviceOptions devices;
  FaultOptions faults;
  bool requires_fired = false;  // each rule of them
  bool quiet = false;
  std::vector<std::string> failures;
  bool is_private = false;
  std::string name;  // of the private emulator; empty: any
  std::vector<std::string> pair;
  std::optional<TimeNs> time_limit_ns;
  std::string capture;
  std::string artifacts;
  std::vector<std::string> command;
  std::vector<std::string> words;  // the whole command line behind `verbena`
  // Of the faults, if there are any; chosen here if it was not asked for.
  std::optional<std::uint64_t> seed;
  bool is_seed_chosen_here = false;

  // The program would be all that we become; it takes a parent to do any of these.
  bool needs_parent() const {
    return is_private || !pair.empty() || time_limit_ns || !capture.empty() || !artifacts.empty();
  }
  // As the driver reads it in the program.
  std::string failure_list() const;
  // For a shell.
  std::string command_that_repeats() const;
};

// The command line of this process behind its name, as it was given.
std::vector<std::string> own_words();

}  // namespace verbena::cli
