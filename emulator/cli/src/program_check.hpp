// SPDX-License-Identifier: BSD-2-Clause
// Checks whether a program can see the device at all. If the preload library cannot reach it, the
// user is told before the program looks for devices in vain.
#pragma once

#include <optional>
#include <string>

namespace verbena::cli {

// `program` is a word as execvp takes it. Returns the reason if the program will see no device;
// nothing if it may, or if it cannot be read.
std::optional<std::string> why_no_device(const std::string& program);

}  // namespace verbena::cli
