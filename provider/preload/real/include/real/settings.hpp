// SPDX-License-Identifier: BSD-2-Clause
// The environment variables that Verbena reads in a program, as they were when the program was
// started. A program that clears its environment keeps its devices. A variable of Verbena that the
// program sets itself counts from then on. Any thread may call these functions, except where said.
#pragma once

namespace verbena::preload {

// Called once, when this library is loaded, before the program has threads.
void remember_settings();

// Returns the value of one of the variables in settings.cpp, or null (verbena/control/setting.hpp).
const char* setting(const char* name);

// libibverbs reads RDMAV_DRIVERS itself, after it has found the first device. If the program has
// removed the variable by then, this puts it back. Called when a device of ours is found.
void restore_driver();

}  // namespace verbena::preload
