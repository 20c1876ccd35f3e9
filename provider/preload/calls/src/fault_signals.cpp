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

// What the program has set, beside the flags and the mask that the kernel has from it: its handler,
// or one of these two, and those flags that only it has.
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
constinit std::atomic<pid_t> changing{0};  // a process, one of whose threads does

// Bit i: this thread thinks that it blocks kSignals[i].
__attribute__((tls_model("initial-exec"))) constinit thread_local unsigned blocked = 0;
// The kernel's mask of this thread when that was noted. Another one was set or restored without our
// knowledge: at the end of a handler, by siglongjmp or setcontext.
__attribute__((tls_model("initial-exec"))) constinit thread_local std::uint64_t mask_then = 0;

constexpr std::uint64_t bit_of(int signal) noexcept { return std::uint64_t{1} << (signal - 1); }

// The kernel's 64 signals, of the C library's thousand, without the kernel's two and the C
// library's own two, which are never blocked.
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

// One thread at a time changes handlers, and no handler of its own comes in between. Whoever did so
// when a process forked is not there in the child.
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
    // Only a process's first thread may say who has sent it.
    ::kill(::getpid(), signal);
  }
}

// As the kernel does where there is no handler: the signal comes again when this one's handler
// returns, at the same instruction.
[[gnu::noinline, gnu::cold]] void end_process(int signal, siginfo_t* info) noexcept {
  const int saved = errno;
  struct sigaction none {};
  none.sa_handler = SIG_DFL;
  real::sigaction(signal, &none, nullptr);
  send_again(signal, info, true);
  errno = saved;
}

// Somebody has sent it to a thread that blocks it: there it waits, in the kernel.
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

// The mask that the kernel gets: the two are in it only where they were put off.
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

// Whether the thread blocks it still, of which this is the mask now.
bool is_blocked(int signal, const sigset_t& now) noexcept {
  if ((blocked >> index_of(signal) & 1) == 0) return false;
  if (kernels_bits(now) != mask_then) blocked = 0;
  return blocked != 0;
}

// To the program's handler by a jump, and through no frame of ours: it may look at its callers, and
// leave by siglongjmp or by an exception.
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

// The kernel's part of what the program has set.
struct sigaction kernels_part(const struct sigaction& programs_action) noexcept {
  struct sigaction action = programs_action;
  action.sa_sigaction = &on_signal;
  action.sa_flags = (action.sa_flags | SA_SIGINFO) & ~SA_RESETHAND;
  return action;
}

// And back again, if the kernel has ours.
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
      // A child that has its parent's.
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
  // What waits comes as soon as the mask lets it, and finds what the new mask means noted already.
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
  // As in set_mask(): one that waits comes as soon as it is let.
  sigset_t both;
  ::sigemptyset(&both);
  for (const int signal : kSignals) ::sigaddset(&both, signal);
  mask_then = kernels_bits(kernels_mask(SIG_UNBLOCK, before, both));
  real::pthread_sigmask(SIG_UNBLOCK, &both, nullptr);
  return true;
}

}  // namespace verbena::preload::fault_signals
