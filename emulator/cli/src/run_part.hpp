// SPDX-License-Identifier: BSD-2-Clause
// What a supervised run does beside its programs: faults, captures, reports. Each is asked twice.
#pragma once

#include <string>

#include "children.hpp"
#include "emulator.hpp"
#include "silent_emulator.hpp"
#include "verbena/control/error.hpp"

namespace verbena::cli {

// What there is while a run goes on.
struct RunScene {
  Emulator& emulator;
  const std::string& dir;  // of the emulator
  Children& children;
  Silence& silence;           // the emulator's
  bool is_timed_out = false;  // --timeout has ended the programs
};

class RunPart {
 public:
  virtual ~RunPart() = default;
  // The emulator runs, and no program has been started. An error ends the run (exit code 125).
  virtual control::Outcome<control::Done> begin(RunScene& scene) = 0;
  // --timeout is about to end the programs.
  virtual void time_is_up(RunScene&) {}
  // The programs have ended with `exit_code`, and all that they had started; the emulator still
  // runs, unless somebody has killed it. Returns the exit code from here on. In the opposite order.
  virtual int end(RunScene&, int exit_code) { return exit_code; }
};

}  // namespace verbena::cli
