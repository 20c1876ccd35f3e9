// SPDX-License-Identifier: BSD-2-Clause
// The blocking read of a completion channel by a blocked reader to the engine
// (blocked_reader.hpp). In C, because the thread may be cancelled in it and the plugin brings its
// own unwinder, which has no say in that: what must be done then is called by name.
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
};

// As read(2), or control::kReadPlainly; asks `may_block` before it blocks.
ssize_t verbena_read_channel(int fd, void* bytes, size_t size, int (*may_block)(int fd));

// --- what it needs of a visit (blocked_reader.cpp), which lives in `room` ---
// 0: the read shall be a plain one.
int verbena_begin_visit(int fd, int (*may_block)(int fd), void* room);
// More than 0 or less: what the read returns. 0: sleep first, until epoll says that there is
// something at `wakers`.
ssize_t verbena_visit_read(void* room, void* bytes, size_t size, int* wakers);
// With what epoll has reported; none, if it was a signal.
void verbena_visit_wake(void* room, const struct epoll_event* reported, int count);
void verbena_end_visit(void* room);
// Whether a signal that was caught ends system calls.
int verbena_may_interrupt(void);

#ifdef __cplusplus
}
#endif
