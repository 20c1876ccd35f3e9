// SPDX-License-Identifier: BSD-2-Clause
// The blocking read of a completion channel, by a thread that becomes a blocked reader of the
// engine (blocked_reader.hpp). It is in C, because the thread may be cancelled in it. The plugin
// contains its own unwinder, which takes no part in the cancellation, so the clean-up is called by
// name.
#pragma once

#include <sys/epoll.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  kVerbenaVisitBytes = 64,
  kVerbenaWakers = 4,        // at most
  kVerbenaEventBytes = 8,    // sizeof(CompletionEvent)
  kVerbenaReadPlainly = -2,  // control::kReadPlainly
  kVerbenaNoWakers = -1,
};

// Returns what read(2) returns, or control::kReadPlainly. Calls `may_block` before it blocks.
ssize_t verbena_read_channel(int fd, void* bytes, size_t size, int (*may_block)(int fd));
// Ends the visits in which the calling thread sleeps, because it leaves them by longjmp. Called in
// a signal's handler. A visit during which the thread drives is not ended.
void verbena_leave_channel(void);

// --- functions of a visit (blocked_reader.cpp), which lives in `room` ---
// Returns 0 if the read is to be a plain one.
int verbena_begin_visit(int fd, int (*may_block)(int fd), void* room);
// Returns the result of the read, or 0 if the caller must first sleep until epoll reports something
// at `wakers`. With kVerbenaNoWakers it must not sleep but look for signals, because packets have
// come for long.
ssize_t verbena_visit_read(void* room, void* bytes, size_t size, int* wakers);
// Takes what epoll has reported; `count` is 0 if a signal has ended the sleep.
void verbena_visit_wake(void* room, const struct epoll_event* reported, int count);
void verbena_end_visit(void* room);
// Returns whether a signal that was caught may have a handler that ends system calls.
int verbena_may_interrupt(void);
// Returns whether this signal has such a handler.
int verbena_interrupts(int number);
// Returns whether the signal comes to a thread by what that thread does.
int verbena_is_of_a_fault(int number);

#ifdef __cplusplus
}
#endif
