// SPDX-License-Identifier: BSD-2-Clause
// VERBENA_CHECK states what must hold if our own code is right. If it does not hold, it prints the
// place and the expression, and aborts. It never judges what a caller, a peer or the network does.
#pragma once

namespace verbena {

[[noreturn, gnu::cold]] void check_failed(const char* file, int line,
                                          const char* expression) noexcept;

#if defined(VERBENA_CHECKS)
inline constexpr bool kRecountInvariants = true;
#else
inline constexpr bool kRecountInvariants = false;
#endif

}  // namespace verbena

#define VERBENA_CHECK(expression)                               \
  do {                                                          \
    if (!(expression)) [[unlikely]]                             \
      ::verbena::check_failed(__FILE__, __LINE__, #expression); \
  } while (false)
