// SPDX-License-Identifier: BSD-2-Clause
// Finds out whether the emulator answers. It may have ended, be stopped, or get no processor, and a
// run that must end must not wait in vain for each of its answers.
#pragma once

#include <string>

#include "emulator.hpp"

namespace verbena::cli {

class Silence {
 public:
  explicit Silence(Emulator& emulator) : emulator_(emulator) {}

  // Returns why the emulator cannot be asked now ("the emulator (pid 12) is stopped"), or an empty
  // text if it answers. Waits some seconds for an answer, but not at all for an emulator that is
  // stopped. If no answer comes, it does not ask again.
  std::string look();

 private:
  Emulator& emulator_;
  std::string lasting_;
};

// Returns true if the emulator is stopped (SIGSTOP, a debugger).
bool is_stopped(const Emulator& emulator);

// Continues an emulator that is stopped, unless a debugger holds it.
void let_go_on(const Emulator& emulator);

}  // namespace verbena::cli
