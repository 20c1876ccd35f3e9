// SPDX-License-Identifier: BSD-2-Clause
// Reads what the kernel says about a process in /proc/PID/stat. The process may end at any moment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace verbena::daemon {

// Returns the fields behind the name, of which the first is the state; empty: no such process.
std::vector<std::string> fields_of_process(std::uint32_t pid);

// Returns the state of the process's first thread that has not ended; empty: no such process.
std::string state_of_process(std::uint32_t pid);

// Returns words that are others after an execve(), which gives the program other addresses; empty:
// not known.
std::string image_of(const std::vector<std::string>& fields);

}  // namespace verbena::daemon
