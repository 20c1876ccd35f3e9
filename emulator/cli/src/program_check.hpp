// SPDX-License-Identifier: BSD-2-Clause
// Checks whether a program can see the device at all. If the preload library cannot reach it, the
// user is told before the program looks for devices in vain.
#pragma once

#include <optional>
#include <string>

namespace verbena::cli {

// `command` is a word as execvp takes it. Returns the reason if the program will see no device;
// nothing if it may, or if it cannot be read.
std::optional<std::string> why_no_device(const std::string& command);

// Returns the reason if the program, or the one that runs this script, would even fail to start
// with the preload library: the loader of musl ends programs into which it cannot preload.
std::optional<std::string> why_no_preload(const std::string& command);

}  // namespace verbena::cli
