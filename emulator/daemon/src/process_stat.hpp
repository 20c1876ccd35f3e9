// SPDX-License-Identifier: BSD-2-Clause
// What the kernel says of a process in /proc/PID/stat. It may end at any moment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace verbena::daemon {

// The fields behind the name, of which the first is the state; empty: there is no such process.
std::vector<std::string> fields_of_process(std::uint32_t pid);

}  // namespace verbena::daemon
