// SPDX-License-Identifier: BSD-2-Clause
// What `verbena doctor` checks because it may run in a container or another sandbox: where it is,
// and what such places take away.
#pragma once

#include <string>

#include "findings.hpp"

namespace verbena::cli {

void check_container(Findings& findings);

// Returns the remedy if the runtime directory cannot be used from here.
std::string runtime_dir_remedy(const std::string& dir);

}  // namespace verbena::cli
