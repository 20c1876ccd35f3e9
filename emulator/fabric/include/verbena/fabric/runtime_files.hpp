// SPDX-License-Identifier: BSD-2-Clause
// The files that an emulator leaves in its runtime directory. Any thread may call; the locks there
// say which process may.
#pragma once

#include <string>

namespace verbena::fabric {

// Removes these files, and the directory if nothing else is in it.
void remove_runtime_files(const std::string& dir);

}  // namespace verbena::fabric
