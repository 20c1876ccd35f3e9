// SPDX-License-Identifier: BSD-2-Clause
// Wraps calls that set what signals do, for the two guarded signals (fault_signals.hpp). Other
// signals, and these two before a device is opened, are passed on.
#include <pthread.h>
#include <signal.h>

#include <cerrno>

#include "calls/fault_signals.hpp"
#include "calls/mappings.hpp"
#include "real/export.hpp"
#include "real/real.hpp"

namespace verbena::preload {
namespace {

// Sets a handler as signal() and its variants do.
sighandler_t set_handler(int signal, sighandler_t handler, int flags, bool blocks_itself) noexcept {
  struct sigaction action {};
  struct sigaction old {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  ::sigemptyset(&action.sa_mask);
  if (blocks_itself) ::sigaddset(&action.sa_mask, signal);
  return fault_signals::set_action(signal, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

}  // namespace
}  // namespace verbena::preload

using namespace verbena::preload;

VERBENA_EXPORT void verbena_offer_memory_guard(const verbena::control::MemoryGuard* guard) {
  mappings::watch(guard);
  fault_signals::start(guard);
}

VERBENA_EXPORT bool verbena_guard_thread() { return fault_signals::guard_thread(); }

// NOLINTBEGIN(bugprone-reserved-identifier): these are names of the C library.
VERBENA_EXPORT int sigaction(int signal, const struct sigaction* action,
                             struct sigaction* old) noexcept {
  if (!fault_signals::are_guarded(signal)) [[likely]]
    return real::sigaction(signal, action, old);
  return fault_signals::set_action(signal, action, old);
}
VERBENA_EXPORT int __sigaction(int signal, const struct sigaction* action,
                               struct sigaction* old) noexcept VERBENA_ALIAS_OF(sigaction);

VERBENA_EXPORT sighandler_t signal(int number, sighandler_t handler) noexcept {
  if (!fault_signals::are_guarded(number)) return real::signal(number, handler);
  return set_handler(number, handler, SA_RESTART, true);
}
VERBENA_EXPORT sighandler_t bsd_signal(int number, sighandler_t handler) noexcept
    VERBENA_ALIAS_OF(signal);
VERBENA_EXPORT sighandler_t ssignal(int number, sighandler_t handler) noexcept
    VERBENA_ALIAS_OF(signal);

VERBENA_EXPORT sighandler_t sysv_signal(int number, sighandler_t handler) noexcept {
  if (!fault_signals::are_guarded(number)) return real::__sysv_signal(number, handler);
  return set_handler(number, handler, static_cast<int>(SA_RESETHAND | SA_NODEFER), false);
}
VERBENA_EXPORT sighandler_t __sysv_signal(int number, sighandler_t handler) noexcept
    VERBENA_ALIAS_OF(sysv_signal);
// NOLINTEND(bugprone-reserved-identifier)

VERBENA_EXPORT int pthread_sigmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  if (!fault_signals::are_guarded()) [[likely]]
    return real::pthread_sigmask(how, set, old);
  return fault_signals::set_mask(how, set, old);
}

VERBENA_EXPORT int sigprocmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  if (!fault_signals::are_guarded()) [[likely]]
    return real::sigprocmask(how, set, old);
  const int error = fault_signals::set_mask(how, set, old);
  if (error == 0) return 0;
  errno = error;
  return -1;
}

// The C library's own sighold and sigrelse do not call our sigprocmask.
VERBENA_EXPORT int sighold(int signal) noexcept {
  sigset_t only;
  ::sigemptyset(&only);
  return ::sigaddset(&only, signal) == 0 ? ::sigprocmask(SIG_BLOCK, &only, nullptr) : -1;
}
VERBENA_EXPORT int sigrelse(int signal) noexcept {
  sigset_t only;
  ::sigemptyset(&only);
  return ::sigaddset(&only, signal) == 0 ? ::sigprocmask(SIG_UNBLOCK, &only, nullptr) : -1;
}

// Nor do sigset and sigignore.
VERBENA_EXPORT sighandler_t sigset(int signal, sighandler_t handler) noexcept {
  sigset_t only;
  sigset_t before;
  struct sigaction old {};
  ::sigemptyset(&only);
  if (::sigaddset(&only, signal) != 0) return SIG_ERR;
  const bool holds = handler == SIG_HOLD;
  struct sigaction action {};
  action.sa_handler = handler;
  ::sigemptyset(&action.sa_mask);
  if (::sigaction(signal, holds ? nullptr : &action, &old) != 0) return SIG_ERR;
  if (::sigprocmask(holds ? SIG_BLOCK : SIG_UNBLOCK, &only, &before) != 0) return SIG_ERR;
  return ::sigismember(&before, signal) == 1 ? SIG_HOLD : old.sa_handler;
}
VERBENA_EXPORT int sigignore(int signal) noexcept {
  struct sigaction action {};
  action.sa_handler = SIG_IGN;
  ::sigemptyset(&action.sa_mask);
  return ::sigaction(signal, &action, nullptr);
}
