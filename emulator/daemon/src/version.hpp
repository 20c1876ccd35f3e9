// SPDX-License-Identifier: BSD-2-Clause
// The product's version, from CMake.
#pragma once

namespace verbena::daemon {

inline constexpr const char* kVersion = VERBENA_VERSION;

}  // namespace verbena::daemon
