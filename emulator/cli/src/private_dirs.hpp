// SPDX-License-Identifier: BSD-2-Clause
// The runtime directories of private emulators, beside each other in one directory of the user:
//
//   <runtime directory>/private-<NAME>
//
// Locks say whether one is in use: that of the emulator for life (daemon.lock), and one of the
// directory itself, which whoever has started the emulator holds as long as he needs what is in it.
// The kernel drops both with their processes, however they end. What nobody holds any more is
// removed by the next who comes.
#pragma once

#include <string>

#include "verbena/control/error.hpp"
#include "verbena/control/unique_fd.hpp"

namespace verbena::cli {

// Where all emulators of this user are, whichever of them we are in.
std::string common_dir();

std::string private_dir_of(const std::string& name);

struct PrivateDir {
  std::string path;
  control::UniqueFd lock;
  bool was_there = false;  // with whatever is in it
};
// Of this name, or of a name that nobody has if it is empty. Removes what is left of others first.
control::Outcome<PrivateDir> make_private_dir(const std::string& name);

// The lock of one that there is; none if there is no such one.
control::UniqueFd hold_private_dir(const std::string& path);

// Removes the files of private emulators that were killed, as far as they are this user's.
void sweep_private_dirs();

}  // namespace verbena::cli
