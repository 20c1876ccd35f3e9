// SPDX-License-Identifier: BSD-2-Clause
// Whether a program can see the device at all: what the preload library cannot reach is said before
// the program looks for devices in vain.
#pragma once

#include <optional>
#include <string>

namespace verbena::cli {

// `program` as execvp takes it. The reason in words if it will see no device; nothing if it may,
// or if it cannot be read.
std::optional<std::string> why_no_device(const std::string& program);

}  // namespace verbena::cli
