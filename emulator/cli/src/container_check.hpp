// SPDX-License-Identifier: BSD-2-Clause
// What `verbena doctor` looks at because it may be in a container or another sandbox: where it is,
// and what such places take away.
#pragma once

#include <string>

#include "findings.hpp"

namespace verbena::cli {

void check_container(Findings& findings);

// How to mend it that the runtime directory cannot be used from here.
std::string runtime_dir_remedy(const std::string& dir);

}  // namespace verbena::cli
