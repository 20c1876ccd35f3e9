// SPDX-License-Identifier: BSD-2-Clause
// A fault in a program's registered memory is ours, and must find its thread ready for SIGSEGV and
// SIGBUS: the preload library sees to it that a thread that blocks them only seems to
// (control/memory_guard.hpp).
#pragma once

namespace verbena::provider {

// A thread that comes here for the first time must not block SIGSEGV and SIGBUS. For verbs that are
// seldom called, and for whatever a thread that only posts and polls does once.
bool guard_this_thread() noexcept;
inline void note_thread() noexcept {
  static thread_local bool is_guarded = false;
  if (!is_guarded) is_guarded = guard_this_thread();
}

}  // namespace verbena::provider
