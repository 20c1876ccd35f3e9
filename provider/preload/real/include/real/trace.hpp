// SPDX-License-Identifier: BSD-2-Clause
// VERBENA_PRELOAD_TRACE=1: one line on standard error for everything that is not passed on as it
// came. Neither locks nor allocates.
#pragma once

namespace verbena::preload {

bool is_tracing();

__attribute__((format(printf, 1, 2))) void trace_line(const char* format, ...);

}  // namespace verbena::preload

// The arguments are not evaluated when nobody listens.
#define VERBENA_TRACE(...)                                                             \
  do {                                                                                 \
    if (::verbena::preload::is_tracing()) ::verbena::preload::trace_line(__VA_ARGS__); \
  } while (false)
