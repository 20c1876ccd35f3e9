// SPDX-License-Identifier: BSD-2-Clause
// What `verbena run` was asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "command.hpp"
#include "fault_options.hpp"
#include "verbena/base/types.hpp"

namespace verbena::cli {

struct RunOptions {
  DeviceOptions devices;
  FaultOptions faults;
  bool requires_fired = false;  // every rule must have fired
  bool quiet = false;
  std::vector<std::string> failures;
  bool is_private = false;
  std::string name;  // name of the private emulator; empty: any
  std::vector<std::string> pair;
  std::optional<TimeNs> time_limit_ns;
  std::string capture;
  std::string artifacts;
  std::vector<std::string> command;
  std::string program;                   // how this program was called (CommandLine)
  std::vector<std::string> words;        // the whole command line behind it
  std::vector<std::string> environment;  // NAME=VALUE of our variables that change what happens
  // Seed of the faults, if there are any. It is chosen here if the user gave none.
  std::optional<std::uint64_t> seed;
  bool is_seed_chosen_here = false;

  // Returns true if one of these is asked for, which needs a parent. Otherwise this process becomes
  // the program.
  bool needs_parent() const {
    return is_private || !pair.empty() || time_limit_ns || !capture.empty() || !artifacts.empty();
  }
  // Returns the items of --fail as the driver in the program reads them.
  std::string failure_list() const;
  // Returns what `inherited`, a VERBENA_FAIL, and --fail ask for together. --fail counts alone for
  // a function that both name.
  std::string failure_list_with(std::string_view inherited) const;
  // Returns a command line for a shell.
  std::string command_that_repeats() const;
};

struct CommandLine {
  std::string program;  // a name that a shell finds in PATH, or an absolute path
  std::vector<std::string> words;
};
// Returns the command line of this process, as it was given.
CommandLine own_command_line();
// Returns NAME=VALUE of each of our variables by which a run can differ from another one.
std::vector<std::string> own_environment();

}  // namespace verbena::cli
