// SPDX-License-Identifier: BSD-2-Clause
// Ends the process once no threads but ours are left, as the C library does when the last thread
// ends. An adapter has no threads, so a program may end its main() by pthread_exit() and rely on
// that. The first thread of a process stays listed until all others have ended, so nothing is
// looked at before it has ended. Any thread.
//
// The process must not end while another thread of the program lives: our threads are counted when
// they run, and no count may be too high.
#pragma once

namespace verbena::provider::last_threads {

// Called by a thread of the program that loads the plugin or opens a device. If it is the first
// thread of the process, `wake` is called when it ends. It must wake a thread of ours, which from
// then on calls end_process_if_alone() now and then.
void note_program(void (*wake)() noexcept) noexcept;
bool is_first_gone() noexcept;
// Looks once in times::kLastThreadsLook at most.
void end_process_if_alone() noexcept;
// Called in a forked child, where none of our threads exists.
void begin_anew() noexcept;

// A thread of ours has begun or ended.
void note_begun() noexcept;
void note_ended() noexcept;

}  // namespace verbena::provider::last_threads
