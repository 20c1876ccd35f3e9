// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace verbena {

void check_failed(const char* file, int line, const char* expression) noexcept {
  std::fprintf(stderr, "verbena: internal error at %s:%d: %s does not hold\n", file, line,
               expression);
  std::abort();
}

}  // namespace verbena
