// SPDX-License-Identifier: BSD-2-Clause
// Starts emulators beside the user's ordinary one. Each has a name, a runtime directory
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

// The option --private NAME of the commands that ask or change an emulator.
struct PrivateOption {
  std::string name;  // empty: the user's ordinary emulator

  void add_to(CLI::App& command);
  std::string runtime_dir() const;
  // Does what reach_emulator() does. If no emulator runs, the error says how to start it.
  control::Outcome<Emulator> reach() const;
};

// Returns what is wrong with a name; empty: nothing.
std::string wrong_private_name(const std::string& name);

// Starts an emulator of this name, or of an unused name if it is empty. EEXIST: one of this name
// runs. The emulator removes its directory when it ends.
struct PrivateEmulator {
  std::string dir;
  Emulator emulator;
  control::UniqueFd dir_lock;  // held as long as the content is needed
};
control::Outcome<PrivateEmulator> start_private_emulator(const std::string& name,
                                                         const Parts& parts,
                                                         const settings::Settings& settings,
                                                         bool ends_when_idle);

// Ends the emulator, and removes what it has left if it did not end by itself.
control::Outcome<control::Done> end_private_emulator(PrivateEmulator& own, int patience_ms);

}  // namespace verbena::cli
