// SPDX-License-Identifier: BSD-2-Clause
/* A wait that can be cancelled while it holds a descriptor. It is written in C because a cancelled
 * thread runs the process's own unwinder, and a C++ frame with something to clean up would call
 * into the unwinder that is linked into this library, which aborts. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Waits on `fd`, in `receive`, for a message, and leaves the message there. Returns what recv
 * returns. If the thread is cancelled meanwhile, `*own` is closed unless it is negative. */
ssize_t verbena_await_message(int fd, int* own, ssize_t (*receive)(int, void*, size_t, int));

#ifdef __cplusplus
}
#endif
