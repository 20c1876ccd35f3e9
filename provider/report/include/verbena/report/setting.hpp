// SPDX-License-Identifier: BSD-2-Clause
// The user's settings, which come in environment variables. Any thread.
#pragma once

namespace verbena::provider {

// Returns the value, or null. Variables that the program has removed since it was started still
// count, if there is a preload library (control/setting.hpp).
const char* setting(const char* name) noexcept;

}  // namespace verbena::provider
