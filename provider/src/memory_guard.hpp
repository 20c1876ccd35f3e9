// SPDX-License-Identifier: BSD-2-Clause
// A program's own memory never kills it: what it has registered and then unmapped, protected or cut
// off is touched by instructions that may fault (base/guarded.hpp), and the preload library lets us
// hear of SIGSEGV and SIGBUS first (control/memory_guard.hpp).
#pragma once

namespace verbena::provider {

// Where a device is opened; again in a forked child.
void guard_memory() noexcept;

// A thread that comes here for the first time must not block SIGSEGV and SIGBUS. For verbs that are
// seldom called, and for whatever a thread that only posts and polls does once.
bool guard_this_thread() noexcept;
inline void note_thread() noexcept {
  static thread_local bool is_guarded = false;
  if (!is_guarded) is_guarded = guard_this_thread();
}

}  // namespace verbena::provider
