// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/link/futex.hpp"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "verbena/base/lock.hpp"

namespace verbena::link {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t),
              "a futex is a bare 32-bit word");

// How long a thread sleeps if the kernel cannot put barriers into other threads, so that a wake-up
// may be missed.
constexpr timespec kUnsure{0, 1'000'000};

// Locks are taken inside verbs calls, which leave errno alone.
void wait_on_futex(std::atomic<std::uint32_t>* word, std::uint32_t expected) noexcept {
  const int saved = errno;
  const bool sure = ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
  ::syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, sure ? nullptr : &kUnsure, nullptr, 0);
  errno = saved;
}

void wake_on_futex(std::atomic<std::uint32_t>* word) noexcept {
  const int saved = errno;
  ::syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  errno = saved;
}

}  // namespace

void install_futex_lock_waiter() noexcept {
  const int saved = errno;
  ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
  errno = saved;
  set_lock_waiter({&wait_on_futex, &wake_on_futex});
}

}  // namespace verbena::link
