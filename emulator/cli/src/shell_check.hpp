// SPDX-License-Identifier: BSD-2-Clause
// Checks what this shell's environment does to programs that want the device.
#pragma once

#include <optional>
#include <string>

#include "findings.hpp"
#include "parts.hpp"

namespace verbena::cli {

// `private_abi` is the number that libibverbs appends to a driver's name.
void check_shell(Findings& findings, const Parts& parts, int private_abi);

// Returns what is wrong with the value of VERBENA_LOG, if it is set to what means nothing.
std::optional<std::string> why_no_explanations();

}  // namespace verbena::cli
