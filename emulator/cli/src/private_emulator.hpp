// SPDX-License-Identifier: BSD-2-Clause
// Emulators beside the user's ordinary one, each with a name, a runtime directory
// (private_dirs.hpp) and a subnet of its own, so that any number of them run at once. A program
// that runs in one starts others beside it, not below it.
#pragma once

#include <string>

#include "emulator.hpp"
#include "parts.hpp"
#include "verbena/control/error.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/settings/settings.hpp"

namespace CLI {
class App;
}

namespace verbena::cli {

// --private NAME, of the commands that ask or change an emulator.
struct PrivateOption {
  std::string name;  // empty: the user's ordinary emulator

  void add_to(CLI::App& command);
  std::string runtime_dir() const;
  // As reach_emulator(); the error says how to start it where it does not run.
  control::Outcome<Emulator> reach() const;
};

// What is wrong with a name; empty: nothing.
std::string wrong_private_name(const std::string& name);

// Starts one of this name, or of a name that nobody has if it is empty. EEXIST: one of this name
// runs. It removes its directory when it ends.
struct PrivateEmulator {
  std::string dir;
  Emulator emulator;
  control::UniqueFd dir_lock;  // as long as we need what is in it
};
control::Outcome<PrivateEmulator> start_private_emulator(const std::string& name,
                                                         const Parts& parts,
                                                         const settings::Settings& settings,
                                                         bool ends_when_idle);

// Ends it, and removes what it has left if it did not end by itself.
control::Outcome<control::Done> end_private_emulator(PrivateEmulator& own, int patience_ms);

}  // namespace verbena::cli
