// SPDX-License-Identifier: BSD-2-Clause
// The interface by which the preload library tells the plugin what the environment said. The plugin
// is loaded late, when the program may have cleared its environment; the preload library is loaded
// with the program and remembers. The plugin finds it by name.
#pragma once

namespace verbena::control {

// Returns the value of a variable of Verbena: the value that it has now, else the value that it had
// when the program was started, else null. Returns null in a program that has more rights than its
// caller. The value stays valid until the program changes the variable.
using Setting = const char*(const char* name);
inline constexpr const char* kSetting = "verbena_setting";

}  // namespace verbena::control
