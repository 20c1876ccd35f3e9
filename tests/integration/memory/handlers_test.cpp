// SPDX-License-Identifier: BSD-2-Clause
// A program's own SIGSEGV and SIGBUS. A process plays each scene three times: without a device,
// with a device that it opens before it sets its handlers, and with one that it opens after that.
// With a device, registered memory is gone and used at each step. What the program sees of its
// signals must be the same.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "player.hpp"

namespace memory_test {
namespace {

// --- scenes ---

void play_handler(int flags) {
  before_setting();
  set_fault_handler(flags, {SIGUSR1});
  after_setting();
  for (int i = 0; i < 2; ++i) {
    protect_page();
    say("read %d\n", touch());
    say("blocked after: %s\n", blocked().c_str());
    meet_gone_memory();
  }
  ::raise(SIGSEGV);
  ::kill(::getpid(), SIGBUS);
}

void play_handler_with_mask() { play_handler(0); }
void play_handler_that_may_nest() { play_handler(SA_NODEFER | SA_RESTART); }
void play_handler_on_other_stack() {
  stack_t stack{};
  stack.ss_sp = other_stack;
  stack.ss_size = sizeof other_stack;
  ::sigaltstack(&stack, nullptr);
  play_handler(SA_ONSTACK);
}

void play_handler_for_once() {
  before_setting();
  set_fault_handler(static_cast<int>(SA_RESETHAND));
  after_setting();
  protect_page();
  say("read %d\n", touch());
  struct sigaction now {};
  ::sigaction(SIGSEGV, nullptr, &now);
  say("now default: %d\n", now.sa_handler == SIG_DFL);
  meet_gone_memory();
  protect_page();
  touch();
}

sigjmp_buf way_out;
void leave(int) { ::siglongjmp(way_out, 1); }

void play_leaving_by_a_jump() {
  before_setting();
  say("before: %d\n", ::signal(SIGSEGV, &leave) == SIG_DFL);
  after_setting();
  for (int i = 0; i < 3; ++i) {
    protect_page();
    if (sigsetjmp(way_out, 1) == 0) {
      touch();
    } else {
      say("left, blocked: %s\n", blocked().c_str());
    }
    meet_gone_memory();
  }
  say("before: %d\n", ::signal(SIGSEGV, SIG_DFL) == &leave);
}

void fail(int) { throw 5; }

[[gnu::noinline]] int touch_and_catch() {
  try {
    return touch();
  } catch (int what) {
    return 100 + what;
  }
}

void play_leaving_by_an_exception() {
  before_setting();
  struct sigaction action {};
  action.sa_handler = &fail;
  action.sa_flags = SA_NODEFER;
  ::sigaction(SIGSEGV, &action, nullptr);
  after_setting();
  protect_page();
  say("caught %d\n", touch_and_catch());
  meet_gone_memory();
  say("caught %d\n", touch_and_catch());
}

void play_no_handler() {
  before_setting();
  after_setting();
  protect_page();
  touch();
  say("not reached\n");
}

void play_no_handler_and_a_sender() {
  before_setting();
  after_setting();
  ::raise(SIGBUS);
  say("not reached\n");
}

void play_ignored() {
  before_setting();
  ::signal(SIGSEGV, SIG_IGN);
  after_setting();
  ::raise(SIGSEGV);
  say("still here\n");
  protect_page();
  touch();
  say("not reached\n");
}

// Queries of handlers and flags give what the program has set.
void play_questions() {
  before_setting();
  set_fault_handler(SA_ONSTACK | SA_RESTART | static_cast<int>(SA_RESETHAND), {SIGUSR1, SIGBUS});
  after_setting();
  for (const int number : {SIGSEGV, SIGBUS}) {
    struct sigaction old {};
    struct sigaction other {};
    other.sa_handler = &leave;
    ::sigaction(number, &other, &old);
    say("handler %d flags %x mask %d %d %d\n", old.sa_sigaction == &on_fault, old.sa_flags,
        ::sigismember(&old.sa_mask, SIGUSR1), ::sigismember(&old.sa_mask, SIGBUS),
        ::sigismember(&old.sa_mask, SIGSEGV));
    ::sigaction(number, nullptr, &old);
    say("handler %d flags %x\n", old.sa_handler == &leave, old.sa_flags);
    say("old one %d\n", ::signal(number, SIG_IGN) == &leave);
    say("old one %d\n", ::signal(number, SIG_DFL) == SIG_IGN);
  }
  struct sigaction wrong {};
  say("refused %d\n", ::sigaction(99, &wrong, nullptr));
}

// sigtimedwait takes a blocked signal that is pending.
void play_blocked() {
  before_setting();
  block(true, SIGSEGV);
  say("blocked: %s\n", blocked().c_str());
  after_setting();
  say("blocked: %s\n", blocked().c_str());
  ::raise(SIGSEGV);
  sigset_t waiting;
  ::sigpending(&waiting);
  say("waits: %d\n", ::sigismember(&waiting, SIGSEGV));
  sigset_t wanted;
  ::sigemptyset(&wanted);
  ::sigaddset(&wanted, SIGSEGV);
  siginfo_t info{};
  const timespec limit{10, 0};
  say("took %d of %d, from us: %d\n", ::sigtimedwait(&wanted, &info, &limit), info.si_code,
      info.si_pid == ::getpid());
  set_fault_handler(0);
  ::raise(SIGSEGV);
  block(false, SIGSEGV);
  say("blocked: %s\n", blocked().c_str());
}

void play_blocked_and_a_fault() {
  before_setting();
  set_fault_handler(0);
  block(true, SIGSEGV);
  after_setting();
  protect_page();
  touch();
  say("not reached\n");
}

// After a handler, a jump or a switch of context the mask is as before, though no call restored it.
void block_all(int) {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}
void fault_again(const char* after) {
  protect_page();
  say("%s: blocked: %s read %d\n", after, blocked().c_str(), touch());
  meet_gone_memory();
}
void play_masks_that_come_back() {
  before_setting();
  set_fault_handler(0);
  struct sigaction action {};
  action.sa_handler = &block_all;
  ::sigaction(SIGUSR1, &action, nullptr);
  after_setting();
  ::raise(SIGUSR1);
  fault_again("a handler");
  sigjmp_buf before;
  if (sigsetjmp(before, 1) == 0) {
    block_all(0);
    siglongjmp(before, 1);
  }
  fault_again("a jump");
  ucontext_t here;
  static volatile bool was_here;
  ::getcontext(&here);
  if (!was_here) {
    was_here = true;
    block_all(0);
    ::setcontext(&here);
  }
  fault_again("a context");
}

// A pending signal stays pending while its thread blocks it, whatever else the thread blocks.
void play_masks_that_change_while_one_waits() {
  before_setting();
  set_fault_handler(0);
  after_setting();
  sigset_t mask;
  ::sigemptyset(&mask);
  ::sigaddset(&mask, SIGSEGV);
  ::sigprocmask(SIG_BLOCK, &mask, nullptr);
  ::pthread_kill(::pthread_self(), SIGSEGV);
  ::sigaddset(&mask, SIGUSR2);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  say("another is blocked: %s\n", blocked().c_str());
  sigset_t other;
  ::sigemptyset(&other);
  ::sigaddset(&other, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &other, nullptr);
  ::pthread_sigmask(SIG_UNBLOCK, &other, nullptr);
  say("still: %s\n", blocked().c_str());
  ::sigprocmask(SIG_UNBLOCK, &mask, nullptr);
  say("let: %s\n", blocked().c_str());
  meet_gone_memory();
}

// A thread of the device that has just begun does not take a signal that is sent to the process.
void play_waited_for_as_threads_begin() {
  before_setting();
  set_fault_handler(0);
  after_setting();
  block(true, SIGBUS);
  for (int i = 0; i < 60; ++i) {
    const auto opened = device == Device::kNone ? nullptr : std::make_unique<Side>();
    ::kill(::getpid(), SIGBUS);
    sigset_t only;
    ::sigemptyset(&only);
    ::sigaddset(&only, SIGBUS);
    const timespec limit{10, 0};
    say("waited for: %d\n", ::sigtimedwait(&only, nullptr, &limit));
  }
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
// The C library's sighold blocks without pthread_sigmask. sigwaitinfo gets a signal although
// threads that drive the device exist. It may return EINTR before: the kernel lets the signals of
// bad memory through to the library, which puts one that the thread blocks back in the queue.
void play_held_and_waited_for() {
  before_setting();
  set_fault_handler(0);
  after_setting();
  ::sighold(SIGSEGV);
  say("held: %s\n", blocked().c_str());
  meet_gone_memory();
  ::sigrelse(SIGSEGV);
  block(true, SIGBUS);
  for (int i = 0; i < 20; ++i) {
    ::kill(::getpid(), SIGBUS);
    sigset_t only;
    ::sigemptyset(&only);
    ::sigaddset(&only, SIGBUS);
    siginfo_t info{};
    int got = 0;
    do {
      got = ::sigwaitinfo(&only, &info);
    } while (got == -1 && errno == EINTR);
    say("waited for: %d code %d\n", got, info.si_code);
  }
}
// Nor do its sigset and sigignore set and block by the functions that programs call.
void play_held_by_sigset() {
  before_setting();
  after_setting();
  say("was default: %d\n", ::sigset(SIGSEGV, SIG_HOLD) == SIG_DFL);
  say("held: %s\n", blocked().c_str());
  meet_gone_memory();
  say("was held: %d\n", ::sigset(SIGSEGV, SIG_IGN) == SIG_HOLD);
  say("ignored: %s\n", blocked().c_str());
  meet_gone_memory();
  say("ignores: %d\n", ::sigignore(SIGBUS));
  meet_gone_memory();
  struct sigaction now {};
  ::sigaction(SIGBUS, nullptr, &now);
  say("is ignored: %d\n", now.sa_handler == SIG_IGN);
}
#pragma GCC diagnostic pop

// All signals are blocked before the device is opened or after it, as in servers, and another
// thread drives the device.
void* drive(void*) {
  meet_gone_memory();
  say("thread ends\n");
  return nullptr;
}
void play_threads_that_block_all() {
  before_setting();
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  after_setting();
  say("blocked: %s\n", blocked().c_str());
  pthread_t thread;
  ::pthread_create(&thread, nullptr, &drive, nullptr);
  ::pthread_join(thread, nullptr);
}

void play_file_that_was_cut_off() {
  before_setting();
  set_fault_handler(0);
  after_setting();
  const int file = static_cast<int>(::memfd_create("own", 0));
  page = static_cast<char*>(::mmap(nullptr, kPage, PROT_READ, MAP_SHARED, file, 0));
  if (sigsetjmp(way_out, 1) == 0) {
    ::signal(SIGBUS, &leave);
    touch();
  } else {
    say("left\n");
  }
}

void play_child() {
  before_setting();
  set_fault_handler(0);
  after_setting();
  for (const bool has_handler : {true, false}) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (!has_handler) ::signal(SIGSEGV, SIG_DFL);
      protect_page();
      say("child read %d\n", touch());
      ::_exit(3);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    say("child's end: %d\n", status & 0x7f);
  }
  protect_page();
  say("read %d\n", touch());
}

volatile int deepest = 1 << 30;  // deeper than any stack
[[gnu::noinline]] int dig(int depth) {
  volatile char room[1024];
  room[0] = static_cast<char>(depth);
  return depth == deepest ? 0 : dig(depth + 1) + room[0];
}
void on_overflow(int, siginfo_t* info, void*) {
  say("overflow, code %d\n", info->si_code);
  ::_exit(4);
}
void play_overflow() {
  stack_t stack{};
  stack.ss_sp = other_stack;
  stack.ss_size = sizeof other_stack;
  ::sigaltstack(&stack, nullptr);
  before_setting();
  struct sigaction action {};
  action.sa_sigaction = &on_overflow;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigaction(SIGSEGV, &action, nullptr);
  after_setting();
  dig(0);
}

// --- the process that watches ---

struct Scene {
  const char* name;
  void (*play)();
};

std::string watch(const Scene& scene, Device when) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
  const pid_t child = ::fork();
  if (child == 0) {
    said_to = ends[1];
    device = when;
    const rlimit stack{256 * 1024, 256 * 1024};
    if (scene.play == &play_overflow) ::setrlimit(RLIMIT_STACK, &stack);
    scene.play();
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string said;
  char text[512];
  for (ssize_t got = 0; (got = ::read(ends[0], text, sizeof text)) > 0;) {
    said.append(text, static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return said + "end " + std::to_string(status) + "\n";
}

class Handlers : public testing::TestWithParam<Scene> {};

TEST_P(Handlers, SeeWhatTheyAlwaysSaw) {
  const std::string expected = watch(GetParam(), Device::kNone);
  EXPECT_EQ(watch(GetParam(), Device::kFirst), expected) << "with a device opened before";
  EXPECT_EQ(watch(GetParam(), Device::kLast), expected) << "with a device opened after";
}

INSTANTIATE_TEST_SUITE_P(
    Signals, Handlers,
    testing::Values(
        Scene{"WithAMask", &play_handler_with_mask},
        Scene{"ThatMayNest", &play_handler_that_may_nest},
        Scene{"OnAnotherStack", &play_handler_on_other_stack},
        Scene{"ForOnce", &play_handler_for_once}, Scene{"LeftByAJump", &play_leaving_by_a_jump},
        Scene{"LeftByAnException", &play_leaving_by_an_exception}, Scene{"None", &play_no_handler},
        Scene{"NoneAndASender", &play_no_handler_and_a_sender}, Scene{"Ignored", &play_ignored},
        Scene{"AskedFor", &play_questions}, Scene{"Blocked", &play_blocked},
        Scene{"BlockedAndAFault", &play_blocked_and_a_fault},
        Scene{"MasksThatComeBack", &play_masks_that_come_back},
        Scene{"MasksThatChangeWhileOneWaits", &play_masks_that_change_while_one_waits},
        Scene{"WaitedForAsThreadsBegin", &play_waited_for_as_threads_begin},
        Scene{"HeldAndWaitedFor", &play_held_and_waited_for},
        Scene{"HeldBySigset", &play_held_by_sigset},
        Scene{"ThreadsThatBlockAll", &play_threads_that_block_all},
        Scene{"AFileThatWasCutOff", &play_file_that_was_cut_off}, Scene{"AChild", &play_child},
        Scene{"AnOverflow", &play_overflow}),
    [](const testing::TestParamInfo<Scene>& scene) { return scene.param.name; });

}  // namespace
}  // namespace memory_test
