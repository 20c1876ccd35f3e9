// SPDX-License-Identifier: BSD-2-Clause
// Prints one line on standard error for each call that is not passed on unchanged, if
// VERBENA_PRELOAD_TRACE=1. Neither locks nor allocates.
#pragma once

namespace verbena::preload {

bool is_tracing();

__attribute__((format(printf, 1, 2))) void trace_line(const char* format, ...);

}  // namespace verbena::preload

// The arguments are evaluated only while tracing is on.
#define VERBENA_TRACE(...)                                                             \
  do {                                                                                 \
    if (::verbena::preload::is_tracing()) ::verbena::preload::trace_line(__VA_ARGS__); \
  } while (false)
