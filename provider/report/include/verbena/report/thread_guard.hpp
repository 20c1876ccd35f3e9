// SPDX-License-Identifier: BSD-2-Clause
// A fault in a program's registered memory is ours, and its thread must not block SIGSEGV or SIGBUS
// then. The preload library makes a thread that blocks them only appear to do so
// (control/memory_guard.hpp).
#pragma once

namespace verbena::provider {

// Makes a thread that comes here for the first time ready for both signals. Called by verbs that
// are seldom called, and by what a thread that only posts and polls does once.
bool guard_this_thread() noexcept;
inline void note_thread() noexcept {
  static thread_local bool is_guarded = false;
  if (!is_guarded) is_guarded = guard_this_thread();
}

}  // namespace verbena::provider
