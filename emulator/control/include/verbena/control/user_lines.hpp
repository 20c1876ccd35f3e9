// SPDX-License-Identifier: BSD-2-Clause
// Lines for the user of a program, on the program's standard error output. A line does no harm to
// the program: it is written in one call, so that lines of several threads and processes do not
// mix. A reader that is gone does not kill the program by SIGPIPE. A reader that does not read
// delays it once by a fifth of a second; until the output takes lines again, they are left out, and
// the next line says how many. Any thread.
#pragma once

namespace verbena::control {

// Writes one line with "verbena: " before it, and with question marks in place of control
// characters. Cuts a line that is too long. Keeps errno.
void tell_user(const char* format, ...) noexcept __attribute__((format(printf, 1, 2)));

// The same without "verbena: ".
void tell_user_plainly(const char* format, ...) noexcept __attribute__((format(printf, 1, 2)));

}  // namespace verbena::control
