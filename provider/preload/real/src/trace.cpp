// SPDX-License-Identifier: BSD-2-Clause
#include "real/trace.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>

#include "real/section.hpp"
#include "real/settings.hpp"
#include "verbena/control/user_lines.hpp"

namespace verbena::preload {

bool is_tracing() {
  static constinit std::atomic<int> state{-1};
  int known = state.load(std::memory_order_relaxed);
  if (known < 0) {
    const char* value = setting("VERBENA_PRELOAD_TRACE");
    known = value != nullptr && *value != 0 && *value != '0' ? 1 : 0;
    state.store(known, std::memory_order_relaxed);
  }
  return known == 1;
}

void trace_line(const char* format, ...) {
  const Section section;
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  (void)std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  control::tell_user_plainly("verbena-preload[%d]: %s", ::getpid(), line);
}

}  // namespace verbena::preload
