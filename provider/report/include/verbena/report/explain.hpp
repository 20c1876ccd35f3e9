// SPDX-License-Identifier: BSD-2-Clause
// Why something was refused, in words: one line on standard error, with the program and its
// process, with VERBENA_LOG=explain in the environment (`verbena run` sets it); otherwise nothing
// is written. What is said again and again is said a few times and counted (repeats.hpp). Any
// thread.
#pragma once

namespace verbena::provider {

bool explains() noexcept;
// Keeps errno.
void explain(const char* format, ...) noexcept __attribute__((format(printf, 1, 2)));
// Explains and returns `error`, which is errno from then on: programs print the one or the other.
// Name the verb first.
[[gnu::cold]] int refusal(int error, const char* format, ...) noexcept
    __attribute__((format(printf, 2, 3)));

// A verb that is refused: thrown by what makes or changes objects, never on the post and poll
// paths; the guard (guard.hpp) turns it into the errno.
struct VerbRefused {
  int error;
};
[[noreturn]] void refuse(int error, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace verbena::provider
