// SPDX-License-Identifier: BSD-2-Clause
#include "real/trace.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "real/real.hpp"
#include "real/section.hpp"

namespace verbena::preload {

bool is_tracing() {
  static constinit std::atomic<int> state{-1};
  int known = state.load(std::memory_order_relaxed);
  if (known < 0) {
    const char* value = ::secure_getenv("VERBENA_PRELOAD_TRACE");
    known = value != nullptr && *value != 0 && *value != '0' ? 1 : 0;
    state.store(known, std::memory_order_relaxed);
  }
  return known == 1;
}

void trace_line(const char* format, ...) {
  const Section section;
  char line[512];
  int used = std::snprintf(line, sizeof line, "verbena-preload[%d]: ", ::getpid());
  va_list arguments;
  va_start(arguments, format);
  used +=
      std::vsnprintf(line + used, sizeof line - static_cast<std::size_t>(used), format, arguments);
  va_end(arguments);
  if (used >= static_cast<int>(sizeof line)) used = sizeof line - 1;
  line[used] = '\n';
  (void)!real::write(STDERR_FILENO, static_cast<const void*>(line),
                     static_cast<std::size_t>(used) + 1);
}

}  // namespace verbena::preload
