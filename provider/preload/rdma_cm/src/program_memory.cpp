// SPDX-License-Identifier: BSD-2-Clause
#include "rdma_cm/program_memory.hpp"

#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace verbena::preload {
namespace {

// The stack of a thread. It is empty while it is not known yet, and if it cannot be found out.
struct Stack {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool is_known = false;
};
__attribute__((tls_model("initial-exec"))) constinit thread_local Stack own_stack{};

// The first thread's stack may grow up to its limit. The kernel keeps at least this much below the
// stack's end free of other mappings, whatever the limit is.
constexpr std::uintptr_t kFreeOfOthers = 8u << 20;

Stack find_own_stack() {
  Stack stack{0, 0, true};
  pthread_attr_t attributes;
  if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return stack;
  void* begin = nullptr;
  std::size_t size = 0;
  if (::pthread_attr_getstack(&attributes, &begin, &size) == 0) {
    stack.end = reinterpret_cast<std::uintptr_t>(begin) + size;
    stack.begin = stack.end - std::min<std::uintptr_t>(size, kFreeOfOthers);
  }
  ::pthread_attr_destroy(&attributes);
  return stack;
}

// Returns whether the range lies between this frame and the end of this thread's stack. That memory
// belongs to frames of our callers, so it is mapped and writable and the kernel need not be asked.
// librdmacm has its responses there. Returns false when this thread runs on another stack than its
// own, as in a coroutine or a signal handler.
bool is_in_frames_of_callers(std::uintptr_t address, std::size_t size) {
  if (!own_stack.is_known) own_stack = find_own_stack();
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (here < own_stack.begin || here >= own_stack.end) return false;
  return address >= here && address < own_stack.end && size <= own_stack.end - address;
}

}  // namespace

bool copy_in(std::span<std::uint8_t> to, std::uint64_t address) {
  iovec local{to.data(), to.size()};
  iovec remote{reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), to.size()};
  const ssize_t n = ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0);
  if (n == static_cast<ssize_t>(to.size())) return true;
  if (n >= 0 || errno == EFAULT || address == 0) return false;
  std::memcpy(to.data(), remote.iov_base, to.size());  // a sandbox forbids process_vm_readv
  return true;
}

bool copy_out(std::uint64_t address, std::span<const std::uint8_t> from) {
  if (from.empty()) return true;
  void* to = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
  if (is_in_frames_of_callers(static_cast<std::uintptr_t>(address), from.size())) {
    std::memcpy(to, from.data(), from.size());
    return true;
  }
  iovec local{const_cast<std::uint8_t*>(from.data()), from.size()};
  iovec remote{to, from.size()};
  const ssize_t n = ::process_vm_writev(::getpid(), &local, 1, &remote, 1, 0);
  if (n == static_cast<ssize_t>(from.size())) return true;
  if (n >= 0 || errno == EFAULT || address == 0) return false;
  std::memcpy(to, from.data(), from.size());
  return true;
}

}  // namespace verbena::preload
