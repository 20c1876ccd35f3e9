// SPDX-License-Identifier: BSD-2-Clause
// What a supervised run does beside its programs: faults, captures, reports. Each is asked twice.
#pragma once

#include "emulator.hpp"
#include "verbena/control/error.hpp"

namespace verbena::cli {

class RunPart {
 public:
  virtual ~RunPart() = default;
  // The emulator runs, and no program has been started. An error ends the run (exit code 125).
  virtual control::Outcome<control::Done> begin(Emulator& emulator) = 0;
  // The programs have ended with `exit_code`, and all that they had started; the emulator still
  // runs, unless somebody has killed it. Returns the exit code from here on.
  virtual int end(Emulator&, int exit_code) { return exit_code; }
};

}  // namespace verbena::cli
