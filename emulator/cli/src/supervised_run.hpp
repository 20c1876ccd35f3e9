// SPDX-License-Identifier: BSD-2-Clause
// `verbena run` as the parent of a program or of a pair of programs: with an emulator of their own
// or the user's ordinary one, with a time limit, with faults from the first packet on.
//
//   emulator --> parts begin --> programs --> parts end --> the private emulator ends
#pragma once

#include "emulator.hpp"
#include "parts.hpp"
#include "run_options.hpp"
#include "verbena/settings/settings.hpp"

namespace verbena::cli {

// Sets what the program finds in its environment besides what leads it to the device.
void set_program_environment(const RunOptions& options, const settings::Settings& settings);

// Returns the exit code.
int supervised_run(RunOptions options, const Parts& parts, const settings::Settings& settings);

}  // namespace verbena::cli
