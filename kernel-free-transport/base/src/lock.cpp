// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/base/lock.hpp"

namespace verbena {
namespace {

void spin(std::atomic<std::uint32_t>* word, std::uint32_t expected) noexcept {
  for (int i = 0; i < 100 && word->load(std::memory_order_relaxed) == expected; ++i) cpu_relax();
}
void wake_nobody(std::atomic<std::uint32_t>*) noexcept {}

constinit std::atomic<void (*)(std::atomic<std::uint32_t>*, std::uint32_t) noexcept> g_wait{&spin};
constinit std::atomic<void (*)(std::atomic<std::uint32_t>*) noexcept> g_wake{&wake_nobody};

}  // namespace

void set_lock_waiter(LockWaiter waiter) noexcept {
  g_wake.store(waiter.wake_one, std::memory_order_release);
  g_wait.store(waiter.wait, std::memory_order_release);
}

void Lock::lock_slow() noexcept {
  // Spins shortly first, because most critical sections are shorter than a sleep.
  for (int i = 0; i < 64; ++i) {
    if (word_.load(std::memory_order_relaxed) == kFree && try_lock()) return;
    cpu_relax();
  }
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (!try_lock()) g_wait.load(std::memory_order_acquire)(&word_, kHeld);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

void Lock::unlock_slow() noexcept { g_wake.load(std::memory_order_acquire)(&word_); }

}  // namespace verbena
