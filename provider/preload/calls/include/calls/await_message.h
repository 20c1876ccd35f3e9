// SPDX-License-Identifier: BSD-2-Clause
/* A wait that can be cancelled while it holds a descriptor. In C: the unwinder of a cancelled
 * thread is the process's own, and C++ frames with something to clean up would call into the one
 * that is linked into this library, which aborts. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Waits on `fd`, in `receive`, for a message, which stays there; a negative result and errno as
 * recv's. `*own` is closed, unless it is negative, if the thread is cancelled meanwhile. */
ssize_t verbena_await_message(int fd, int* own, ssize_t (*receive)(int, void*, size_t, int));

#ifdef __cplusplus
}
#endif
