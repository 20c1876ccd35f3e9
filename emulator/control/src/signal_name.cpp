// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/control/signal_name.hpp"

#include <algorithm>
#include <csignal>
#include <iterator>

namespace verbena::control {
namespace {

struct Name {
  int number;
  std::string_view name;
};

#define VERBENA_SIGNAL(name) \
  { name, #name }
constexpr Name kNames[] = {
    VERBENA_SIGNAL(SIGHUP),    VERBENA_SIGNAL(SIGINT),  VERBENA_SIGNAL(SIGQUIT),
    VERBENA_SIGNAL(SIGILL),    VERBENA_SIGNAL(SIGTRAP), VERBENA_SIGNAL(SIGABRT),
    VERBENA_SIGNAL(SIGBUS),    VERBENA_SIGNAL(SIGFPE),  VERBENA_SIGNAL(SIGKILL),
    VERBENA_SIGNAL(SIGUSR1),   VERBENA_SIGNAL(SIGSEGV), VERBENA_SIGNAL(SIGUSR2),
    VERBENA_SIGNAL(SIGPIPE),   VERBENA_SIGNAL(SIGALRM), VERBENA_SIGNAL(SIGTERM),
    VERBENA_SIGNAL(SIGSTKFLT), VERBENA_SIGNAL(SIGCHLD), VERBENA_SIGNAL(SIGCONT),
    VERBENA_SIGNAL(SIGSTOP),   VERBENA_SIGNAL(SIGTSTP), VERBENA_SIGNAL(SIGTTIN),
    VERBENA_SIGNAL(SIGTTOU),   VERBENA_SIGNAL(SIGURG),  VERBENA_SIGNAL(SIGXCPU),
    VERBENA_SIGNAL(SIGXFSZ),   VERBENA_SIGNAL(SIGPROF), VERBENA_SIGNAL(SIGVTALRM),
    VERBENA_SIGNAL(SIGWINCH),  VERBENA_SIGNAL(SIGPOLL), VERBENA_SIGNAL(SIGPWR),
    VERBENA_SIGNAL(SIGSYS),
};
#undef VERBENA_SIGNAL

}  // namespace

// Debian 11 lacks the C library's own function (sigabbrev_np).
std::string_view signal_name(int number) noexcept {
  const auto* const known = std::ranges::find_if(
      kNames, [number](const Name& signal) { return signal.number == number; });
  return known == std::end(kNames) ? std::string_view() : known->name;
}

}  // namespace verbena::control
