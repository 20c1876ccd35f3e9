// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/link/seed.hpp"

#include <sys/auxv.h>
#include <sys/random.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "verbena/link/clock.hpp"

namespace verbena::link {

// If the system call is forbidden, the seed comes from the bytes that the kernel gave the process
// when it began.
std::uint64_t random_seed() noexcept {
  const int saved = errno;
  std::uint64_t seed = 0;
  if (::getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed) {
    static std::atomic<std::uint64_t> calls{0};
    std::uint64_t given = 0;
    if (const unsigned long at = ::getauxval(AT_RANDOM); at != 0) {
      std::memcpy(&given, reinterpret_cast<const void*>(at), sizeof given);
    }
    seed = given ^ monotonic_now_ns() ^ static_cast<std::uint64_t>(::getpid()) << 32 ^
           calls.fetch_add(1, std::memory_order_relaxed) << 56;
  }
  errno = saved;
  return seed;
}

}  // namespace verbena::link
