// SPDX-License-Identifier: BSD-2-Clause
// The runtime directories of private emulators, beside each other in one directory of the user:
//
//   <runtime directory>/private-<NAME>
//
// Locks say whether a directory is in use: daemon.lock, which the emulator holds for life, and a
// lock of the directory itself, which the starter of the emulator holds as long as it needs the
// content. The kernel releases both with their processes, however they end. A directory that no
// process holds is removed by the next process that makes one, if a lock file shows that it was an
// emulator's.
#pragma once

#include <string>

#include "verbena/control/error.hpp"
#include "verbena/control/unique_fd.hpp"

namespace verbena::cli {

// Returns the directory of all emulators of this user, even if this process runs in a private one:
// then it holds the files of an emulator.
std::string common_dir();

std::string private_dir_of(const std::string& name);

// Returns the command that ends the emulator of this directory.
std::string command_that_ends(const std::string& runtime_dir);

struct PrivateDir {
  std::string path;
  control::UniqueFd lock;
  bool was_there = false;  // the directory existed, with whatever is in it
};
// Makes a directory of this name, or of an unused name if it is empty. First removes what is left
// of others.
control::Outcome<PrivateDir> make_private_dir(const std::string& name);

// Locks a directory that exists. Returns none if it does not.
control::UniqueFd hold_private_dir(const std::string& path);

// Removes the files of this user's private emulators that were killed.
void sweep_private_dirs();

}  // namespace verbena::cli
