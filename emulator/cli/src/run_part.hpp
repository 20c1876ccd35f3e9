// SPDX-License-Identifier: BSD-2-Clause
// What a supervised run does beside its programs: faults, captures, reports. Each part is called at
// the beginning and at the end of the run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "children.hpp"
#include "emulator.hpp"
#include "silent_emulator.hpp"
#include "verbena/control/error.hpp"

namespace verbena::cli {

// What is known of a run besides its exit code.
struct RunNotes {
  bool is_timed_out = false;  // --timeout has ended the programs
  // Rules that never fired. Nothing: nobody can say, because the emulator does not answer.
  std::optional<std::vector<std::string>> never_fired = std::vector<std::string>();
  std::string error;  // what `verbena run` itself has failed at; empty: nothing
};

// What there is while a run goes on.
struct RunScene {
  Emulator& emulator;
  const std::string& dir;  // runtime directory of the emulator
  Children& children;
  Silence& silence;  // tells whether the emulator answers
  RunNotes& notes;
};

class RunPart {
 public:
  virtual ~RunPart() = default;
  // Called when the emulator runs and no program was started. An error ends the run (exit code
  // 125).
  virtual control::Outcome<control::Done> begin(RunScene& scene) = 0;
  // Called when --timeout is about to end the programs.
  virtual void time_is_up(RunScene&) {}
  // Called when the programs, and all that they had started, have ended with `exit_code`; for the
  // parts in the opposite order. The emulator still runs, unless it was killed. Returns the exit
  // code from here on.
  virtual int end(RunScene&, int exit_code) { return exit_code; }
};

}  // namespace verbena::cli
