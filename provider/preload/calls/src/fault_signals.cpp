// SPDX-License-Identifier: BSD-2-Clause
#include "calls/fault_signals.hpp"

#include <sys/syscall.h>
#include <sys/types.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "real/real.hpp"

namespace verbena::preload::fault_signals {
namespace {

constexpr std::array kSignals{SIGSEGV, SIGBUS};

using Handler = void (*)(int, siginfo_t*, void*);

// The part of the program's action that the kernel does not have: the program's handler, or one of
// kDefault and kIgnored, and the flags in kProgramsOwn. The kernel has the other flags and the
// mask.
struct Program {
  std::atomic<Handler> handler{nullptr};
  std::atomic<int> flags{0};
};
const Handler kDefault = nullptr;
const Handler kIgnored = reinterpret_cast<Handler>(std::uintptr_t{1});
constexpr int kProgramsOwn = SA_SIGINFO | SA_RESETHAND;

constinit std::array<Program, kSignals.size()> programs{};
constinit std::atomic<const control::MemoryGuard*> guard{nullptr};
constinit std::atomic<pid_t> owner{0};
// The process that has a thread which is changing a handler; 0 if there is none.
constinit std::atomic<pid_t> changing{0};

// Bit i is set if this thread believes that it blocks kSignals[i].
__attribute__((tls_model("initial-exec"))) constinit thread_local unsigned blocked = 0;
// The kernel's mask of this thread when `blocked` was last set. If the kernel has another mask now,
// the end of a handler, siglongjmp or setcontext has restored one without our knowledge.
__attribute__((tls_model("initial-exec"))) constinit thread_local std::uint64_t mask_then = 0;

constexpr std::uint64_t bit_of(int signal) noexcept { return std::uint64_t{1} << (signal - 1); }

// Returns the kernel's 64 signals out of the C library's 1024, without those that are never
// blocked: SIGKILL, SIGSTOP and the C library's own two.
std::uint64_t kernels_bits(const sigset_t& set) noexcept {
  constexpr std::uint64_t kUnblockable =
      bit_of(SIGKILL) | bit_of(SIGSTOP) | bit_of(32) | bit_of(33);
  std::uint64_t bits;
  static_assert(sizeof bits <= sizeof set);
  std::memcpy(&bits, &set, sizeof bits);
  return bits & ~kUnblockable;
}

std::size_t index_of(int signal) noexcept { return signal == SIGSEGV ? 0 : 1; }

unsigned bits_of(const sigset_t& set) noexcept {
  unsigned bits = 0;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (::sigismember(&set, kSignals[i]) == 1) bits |= 1u << i;
  }
  return bits;
}
void add_bits(sigset_t& set, unsigned bits) noexcept {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if ((bits >> i & 1) != 0) ::sigaddset(&set, kSignals[i]);
  }
}

// Lets one thread at a time change handlers, and blocks all signals of that thread meanwhile. A
// process ID other than our own in `changing` is left over from the parent of a fork, and is
// overwritten.
class Change {
 public:
  Change() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    real::pthread_sigmask(SIG_SETMASK, &all, &before_);
    const pid_t own = ::getpid();
    pid_t other = 0;
    while (!changing.compare_exchange_weak(other, own, std::memory_order_acquire)) {
      if (other == own) other = 0;
    }
  }
  ~Change() {
    changing.store(0, std::memory_order_release);
    real::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

 private:
  sigset_t before_;
};

void send_again(int signal, siginfo_t* info, bool to_thread) noexcept {
  if (to_thread) {
    ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), ::gettid(), signal, info);
  } else if (::syscall(SYS_rt_sigqueueinfo, ::getpid(), signal, info) != 0) {
    // Only a process's first thread may send with a siginfo_t that names another sender.
    ::kill(::getpid(), signal);
  }
}

// Ends the process as the kernel does when there is no handler: the signal comes again at the same
// instruction, when our handler returns.
[[gnu::noinline, gnu::cold]] void end_process(int signal, siginfo_t* info) noexcept {
  const int saved = errno;
  struct sigaction none {};
  none.sa_handler = SIG_DFL;
  real::sigaction(signal, &none, nullptr);
  send_again(signal, info, true);
  errno = saved;
}

// Puts back a signal that was sent to a thread which blocks it: it waits in the kernel.
[[gnu::noinline, gnu::cold]] void put_off(int signal, siginfo_t* info,
                                          ucontext_t& context) noexcept {
  const int saved = errno;
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, signal);
  real::pthread_sigmask(SIG_BLOCK, &only, nullptr);
  ::sigaddset(&context.uc_sigmask, signal);
  mask_then = kernels_bits(context.uc_sigmask);
  send_again(signal, info, info->si_code == SI_TKILL);
  errno = saved;
}

// Returns the mask for the kernel: one of the two signals is in it only if it was put off before.
sigset_t kernels_mask(int how, const sigset_t& before, const sigset_t& set) noexcept {
  sigset_t after = how == SIG_SETMASK ? set : before;
  if (how == SIG_SETMASK) {
    for (const int signal : kSignals) ::sigdelset(&after, signal);
  } else {
    for (int signal = 1; signal < NSIG; ++signal) {
      if (::sigismember(&set, signal) != 1) continue;
      if (how == SIG_UNBLOCK) ::sigdelset(&after, signal);
      if (how == SIG_BLOCK && signal != SIGSEGV && signal != SIGBUS) ::sigaddset(&after, signal);
    }
  }
  return after;
}

// Returns whether the thread still blocks `signal`. `now` is its mask in the kernel.
bool is_blocked(int signal, const sigset_t& now) noexcept {
  if ((blocked >> index_of(signal) & 1) == 0) return false;
  if (kernels_bits(now) != mask_then) blocked = 0;
  return blocked != 0;
}

// Calls the program's handler as the last action, so that no frame of ours stays on the stack: the
// handler may look at its callers, and leave by siglongjmp or by an exception.
void hand_on(int signal, siginfo_t* info, void* context) {
  const bool was_sent = info->si_code <= 0;
  auto& machine = *static_cast<ucontext_t*>(context);
  if (is_blocked(signal, machine.uc_sigmask)) {
    return was_sent ? put_off(signal, info, machine) : end_process(signal, info);
  }
  Program& program = programs[index_of(signal)];
  const Handler handler = program.handler.load(std::memory_order_acquire);
  if (handler == kIgnored && was_sent) return;
  if (handler == kDefault || handler == kIgnored) return end_process(signal, info);
  if ((program.flags.load(std::memory_order_relaxed) & SA_RESETHAND) != 0) {
    Handler expected = handler;
    program.handler.compare_exchange_strong(expected, kDefault);
  }
  handler(signal, info, context);
}

void on_signal(int signal, siginfo_t* info, void* context) {
  const bool is_raised = info->si_code > 0;
  if (is_raised && guard.load(std::memory_order_acquire)->resume(context)) return;
  hand_on(signal, info, context);
}

// Returns the program's action as the kernel gets it, with our handler.
struct sigaction kernels_part(const struct sigaction& programs_action) noexcept {
  struct sigaction action = programs_action;
  action.sa_sigaction = &on_signal;
  action.sa_flags = (action.sa_flags | SA_SIGINFO) & ~SA_RESETHAND;
  return action;
}

// Does the reverse: turns the kernel's action into the program's, if it has our handler.
void show_programs(struct sigaction& action, Handler handler, int flags) noexcept {
  if ((action.sa_flags & SA_SIGINFO) == 0 || action.sa_sigaction != &on_signal) return;
  action.sa_sigaction = handler;
  action.sa_flags = (action.sa_flags & ~kProgramsOwn) | flags;
}

}  // namespace

bool are_guarded() noexcept { return owner.load(std::memory_order_acquire) != 0; }

bool are_guarded(int signal) noexcept {
  return (signal == SIGSEGV || signal == SIGBUS) && are_guarded();
}

void start(const control::MemoryGuard* wanted) noexcept {
  if (owner.load(std::memory_order_acquire) != ::getpid()) {
    const Change change;
    guard.store(wanted, std::memory_order_release);
    for (const int signal : kSignals) {
      struct sigaction now {};
      if (real::sigaction(signal, nullptr, &now) != 0) continue;
      // A forked child has its parent's handler, which is ours.
      if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == &on_signal) continue;
      Program& program = programs[index_of(signal)];
      program.flags.store(now.sa_flags & kProgramsOwn, std::memory_order_relaxed);
      program.handler.store(now.sa_sigaction, std::memory_order_release);
      const struct sigaction ours = kernels_part(now);
      real::sigaction(signal, &ours, nullptr);
    }
    owner.store(::getpid(), std::memory_order_release);
  }
  guard_thread();
}

int set_action(int signal, const struct sigaction* action, struct sigaction* old) noexcept {
  Program& program = programs[index_of(signal)];
  if (action == nullptr || ::getpid() != owner.load(std::memory_order_relaxed)) {
    const int rc = real::sigaction(signal, action, old);
    if (rc == 0 && old != nullptr) show_programs(*old, program.handler, program.flags);
    return rc;
  }
  const Change change;
  const struct sigaction ours = kernels_part(*action);
  const Handler handler_before = program.handler.exchange(action->sa_sigaction);
  const int flags_before = program.flags.exchange(action->sa_flags & kProgramsOwn);
  struct sigaction before {};
  const int rc = real::sigaction(signal, &ours, &before);
  if (rc != 0) {
    program.handler = handler_before;
    program.flags = flags_before;
  } else if (old != nullptr) {
    show_programs(before, handler_before, flags_before);
    *old = before;
  }
  return rc;
}

int set_mask(int how, const sigset_t* set, sigset_t* old) noexcept {
  const unsigned named = set == nullptr ? 0 : bits_of(*set);
  const bool is_foreign = named != 0 && ::getpid() != owner.load(std::memory_order_relaxed);
  const bool is_known = how == SIG_BLOCK || how == SIG_UNBLOCK || how == SIG_SETMASK;
  if (set == nullptr || is_foreign || !is_known || (named | blocked) == 0) {
    const int error = real::pthread_sigmask(how, set, old);
    if (error == 0 && old != nullptr && !is_foreign) add_bits(*old, blocked);
    return error;
  }
  // All signals are blocked until the last call, because a pending signal comes as soon as the mask
  // lets it, and its handler must find the new `blocked` and `mask_then`.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  if (const int error = real::pthread_sigmask(SIG_SETMASK, &all, &before); error != 0) return error;
  const unsigned blocked_before = blocked;
  blocked = how == SIG_BLOCK ? blocked | named : how == SIG_UNBLOCK ? blocked & ~named : named;
  const sigset_t after = kernels_mask(how, before, *set);
  mask_then = kernels_bits(after);
  if (old != nullptr) {
    *old = before;
    add_bits(*old, blocked_before);
  }
  return real::pthread_sigmask(SIG_SETMASK, &after, nullptr);
}

bool guard_thread() noexcept {
  if (!are_guarded()) return false;
  sigset_t before;
  if (real::pthread_sigmask(SIG_BLOCK, nullptr, &before) != 0) return true;
  blocked |= bits_of(before);
  if (blocked == 0) return true;
  // `mask_then` is set first, as in set_mask(): a pending signal comes as soon as it is unblocked.
  sigset_t both;
  ::sigemptyset(&both);
  for (const int signal : kSignals) ::sigaddset(&both, signal);
  mask_then = kernels_bits(kernels_mask(SIG_UNBLOCK, before, both));
  real::pthread_sigmask(SIG_UNBLOCK, &both, nullptr);
  return true;
}

}  // namespace verbena::preload::fault_signals
