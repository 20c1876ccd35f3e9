// SPDX-License-Identifier: BSD-2-Clause
// What a program that is built with a sanitizer wants to know, so that nobody has to set options.
// The runtimes ask for functions of these names, each of which a program may define itself; a
// runtime that is a library of its own (gcc's) finds ours first. One that is linked into the
// program (clang's) does not: README.md says what to set then.
#include "real/export.hpp"

// ASan insists on being the first library. All our wrappers hand on to the next one, so behind us
// it works as well.
VERBENA_EXPORT const char* __asan_default_options() { return "verify_asan_link_order=0"; }

// TSan sees the copies of memory that a plugin without it makes but none of the plugin's locks, and
// would take each copy for a race. A plugin that is built with TSan, for its own tests, is to be
// looked at; but of a thread that is cancelled while it sleeps TSan sees no lock from then on.
VERBENA_EXPORT const char* __tsan_default_suppressions() {
#ifdef __SANITIZE_THREAD__
  return "race:end_cancelled_visit\n";
#else
  return "called_from_lib:libverbena-rdmav\n"
         "called_from_lib:libverbena-preload\n";
#endif
}
