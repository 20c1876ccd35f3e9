// SPDX-License-Identifier: BSD-2-Clause
// Guards SIGSEGV and SIGBUS once the plugin wants to hear of them first (control/memory_guard.hpp).
// From then on the kernel has a handler of ours, with the flags and the mask that the program set
// for its own. A fault that is not ours reaches the program's handler on the stack, with the mask
// and with the arguments that it would have had without us. If the program has no handler, the
// process ends as it would have ended. The functions report the program's own handler to the
// program, never ours.
//
// A handler that the program sets by a bare system call, past the C library, replaces ours.
//
// All of this applies to the process in which the guard was offered. A forked child inherits the
// handler, which works there too. A handler that the child sets is passed to the kernel unchanged.
#pragma once

#include <signal.h>

#include "verbena/control/memory_guard.hpp"

namespace verbena::preload::fault_signals {

void start(const control::MemoryGuard* guard) noexcept;

// Returns whether `signal` is SIGSEGV or SIGBUS, and is guarded.
bool are_guarded(int signal) noexcept;
// Does what sigaction(2) does, for a guarded signal.
int set_action(int signal, const struct sigaction* action, struct sigaction* old) noexcept;

// A thread that blocks one of the two signals would be killed by a fault that is ours. Therefore
// the kernel does not block them; the thread only appears to block them. A signal that was sent,
// rather than raised by a fault, does wait until the thread unblocks it.
bool are_guarded() noexcept;
// Does what pthread_sigmask(3) does, and returns an errno.
int set_mask(int how, const sigset_t* set, sigset_t* old) noexcept;
// Takes over the calling thread, which may have blocked the signals before. Returns false if they
// are not guarded.
bool guard_thread() noexcept;

}  // namespace verbena::preload::fault_signals
