// SPDX-License-Identifier: BSD-2-Clause
// Explains in words why something was refused: one line on standard error, with the program's name
// and process ID, if VERBENA_LOG=explain is in the environment (`verbena run` sets it). Repeated
// lines are printed a few times and then counted (repeats.hpp). Any thread.
#pragma once

namespace verbena::provider {

bool explains() noexcept;
// Prints a line if explanations are wanted. Keeps errno.
void explain(const char* format, ...) noexcept __attribute__((format(printf, 1, 2)));
// Explains, sets errno to `error` and returns `error`, because programs print either. The text
// begins with the verb.
[[gnu::cold]] int refusal(int error, const char* format, ...) noexcept
    __attribute__((format(printf, 2, 3)));

// A refused verb. Functions that make or change objects throw it, never the post and poll paths;
// the guard (guard.hpp) turns it into the errno.
struct VerbRefused {
  int error;
};
[[noreturn]] void refuse(int error, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace verbena::provider
