// SPDX-License-Identifier: BSD-2-Clause
// Checks a container engine that is to give our devices to containers.
#pragma once

#include <optional>
#include <string>

namespace verbena::cli {

// Returns nothing if `engine` (podman or docker), as PATH finds it, takes CDI specifications.
std::optional<std::string> why_engine_has_no_cdi(const std::string& engine);

}  // namespace verbena::cli
