// SPDX-License-Identifier: BSD-2-Clause
// Sets options of the sanitizers, so that users need not set them. The runtimes call functions of
// these names, which a program may define. A runtime that is a shared library (gcc's) finds ours
// first. A runtime that is linked into the program (clang's) does not; README.md says what to set
// then.
#include "real/export.hpp"

// ASan insists on being the first library. It also works behind us, because all our wrappers call
// the next library.
VERBENA_EXPORT const char* __asan_default_options() { return "verify_asan_link_order=0"; }

// TSan sees how a plugin that was built without it copies memory, but none of the plugin's locks,
// and would report each copy as a race. A plugin that was built with TSan, for its own tests, is
// checked. But TSan sees no locks of a thread after it was cancelled while it slept.
VERBENA_EXPORT const char* __tsan_default_suppressions() {
#ifdef __SANITIZE_THREAD__
  return "race:end_cancelled_visit\n";
#else
  return "called_from_lib:libverbena-rdmav\n"
         "called_from_lib:libverbena-preload\n";
#endif
}
