#include "verbena/link/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "verbena/base/lock.hpp"

namespace verbena::link {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t),
              "a futex is a bare 32-bit word");

// Locks are taken inside verbs calls, which leave errno alone.
void wait_on_futex(std::atomic<std::uint32_t>* word, std::uint32_t expected) noexcept {
  const int saved = errno;
  ::syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
  errno = saved;
}

void wake_on_futex(std::atomic<std::uint32_t>* word) noexcept {
  const int saved = errno;
  ::syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  errno = saved;
}

}  // namespace

void install_futex_lock_waiter() noexcept { set_lock_waiter({&wait_on_futex, &wake_on_futex}); }

}  // namespace verbena::link
