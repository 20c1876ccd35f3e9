// SPDX-License-Identifier: BSD-2-Clause
// What `verbena run` was asked for.
#pragma once

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
  bool quiet = false;
  std::vector<std::string> failures;
  bool is_private = false;
  std::string name;  // of the private emulator; empty: any
  std::vector<std::string> pair;
  std::optional<TimeNs> time_limit_ns;
  std::string capture;
  std::vector<std::string> command;

  // The program would be all that we become; it takes a parent to do any of these.
  bool needs_parent() const {
    return is_private || !pair.empty() || time_limit_ns || !capture.empty();
  }
  // As the driver reads it in the program.
  std::string failure_list() const;
};

}  // namespace verbena::cli
