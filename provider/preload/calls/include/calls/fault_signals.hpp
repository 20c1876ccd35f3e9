// SPDX-License-Identifier: BSD-2-Clause
// SIGSEGV and SIGBUS, once the plugin wants to hear of them first (control/memory_guard.hpp). The
// kernel has a handler of ours then, with the flags and the mask that the program has set for its
// own, so that what is not ours reaches the program's handler on the stack, with the mask and with
// the arguments that it would have had; where it has none, the process ends as it would have ended.
// What the program asks for and asks about is its own handler, never ours.
//
// Who sets a handler past the C library (by a bare system call) has it, and we have none.
//
// All of this is of the process that the guard was offered in. A forked child has its parent's
// handler, which works there too; what it sets itself is set as it is.
#pragma once

#include <signal.h>

#include "verbena/control/memory_guard.hpp"

namespace verbena::preload::fault_signals {

void start(const control::MemoryGuard* guard) noexcept;

// Whether this is one of the two and they are guarded.
bool are_guarded(int signal) noexcept;
// Of such a one; as sigaction(2).
int set_action(int signal, const struct sigaction* action, struct sigaction* old) noexcept;

// A thread that blocks one of the two would be killed by a fault that is ours: it is not blocked in
// the kernel. So it looks to the thread, and for a signal that was sent, and not raised by a
// fault, it is so: such a one waits until the thread takes it.
bool are_guarded() noexcept;
// Returns an errno, as pthread_sigmask(3).
int set_mask(int how, const sigset_t* set, sigset_t* old) noexcept;
// For a thread that has blocked them before. False: they are not guarded.
bool guard_thread() noexcept;

}  // namespace verbena::preload::fault_signals
