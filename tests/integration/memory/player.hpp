// SPDX-License-Identifier: BSD-2-Clause
// The process that plays a scene (handlers_test.cpp): what it says to the watching process, its
// devices, its page that it may not touch, and its handler for faults.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "side.hpp"

namespace memory_test {

inline constexpr std::size_t kPage = 4096;

inline int said_to = -1;

// Writes a line to the watching process. Signal handlers may call it.
inline void say(const char* format, ...) {
  char text[200];
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (::write(said_to, text, static_cast<std::size_t>(length)) != length) std::abort();
}

enum class Device { kNone, kFirst, kLast };
inline Device device = Device::kNone;
inline std::unique_ptr<Side> left;
inline std::unique_ptr<Side> right;

// Lets a peer write to gone memory of this process, and sends from gone memory.
inline void meet_gone_memory() {
  if (left == nullptr) return;
  for (const bool is_target : {true, false}) {
    void* const page =
        ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    Side& owner = is_target ? *right : *left;
    ibv_mr* const mr = owner.add(static_cast<char*>(page), kPage);
    left->connect(*right);
    ::mprotect(page, kPage, PROT_NONE);
    ibv_send_wr wr = right->request(IBV_WR_RDMA_WRITE);
    if (is_target) {
      wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(page);
      wr.wr.rdma.rkey = mr->rkey;
    }
    left->post(wr, is_target ? left->sge(0, 64) : left->sge(static_cast<char*>(page), 64, mr));
    const ibv_wc_status status = left->completion().status;
    if (status != (is_target ? IBV_WC_REM_ACCESS_ERR : IBV_WC_LOC_PROT_ERR)) {
      say("gone memory: status %d\n", status);
    }
  }
}
inline void open_device_if(Device when) {
  if (device != when) return;
  left = std::make_unique<Side>();
  right = std::make_unique<Side>();
  meet_gone_memory();
}
// A scene calls these before and after it sets its handlers.
inline void before_setting() { open_device_if(Device::kFirst); }
inline void after_setting() {
  open_device_if(Device::kLast);
  meet_gone_memory();
}

inline char* const kNoPage = nullptr;
inline char* page = kNoPage;  // no access is allowed

inline char touch() { return *const_cast<volatile char*>(page + 24); }
inline void protect_page() {
  if (page == kNoPage) {
    page =
        static_cast<char*>(::mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  ::mprotect(page, kPage, PROT_NONE);
}

inline char other_stack[64 * 1024];

// Returns which of the signals that scenes use are blocked.
inline std::string blocked() {
  sigset_t set;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &set);
  std::string names;
  for (const auto& [number, name] :
       {std::pair{SIGSEGV, "SEGV "}, {SIGBUS, "BUS "}, {SIGUSR1, "USR1 "}}) {
    if (::sigismember(&set, number) == 1) names += name;
  }
  return names;
}

inline void on_fault(int number, siginfo_t* info, void* context) {
  char here = 0;
  const bool is_on_other_stack = &here >= other_stack && &here < other_stack + sizeof other_stack;
  const auto* const machine = static_cast<ucontext_t*>(context);
  sigset_t before = machine->uc_sigmask;
  say("signal %d code %d at %td%s, blocked: %s, before: %d\n", number, info->si_code,
      info->si_code > 0 ? static_cast<char*>(info->si_addr) - page : 0,
      is_on_other_stack ? " on the other stack" : "", blocked().c_str(),
      ::sigismember(&before, SIGSEGV));
  errno = 99;
  if (info->si_code > 0) ::mprotect(page, kPage, PROT_READ | PROT_WRITE);
}

inline void set_fault_handler(int flags, std::initializer_list<int> mask = {}) {
  struct sigaction action {};
  action.sa_sigaction = &on_fault;
  action.sa_flags = flags | SA_SIGINFO;
  for (const int number : mask) ::sigaddset(&action.sa_mask, number);
  ::sigaction(SIGSEGV, &action, nullptr);
  ::sigaction(SIGBUS, &action, nullptr);
}

inline void block(bool does, int number) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, number);
  ::pthread_sigmask(does ? SIG_BLOCK : SIG_UNBLOCK, &set, nullptr);
}

}  // namespace memory_test
