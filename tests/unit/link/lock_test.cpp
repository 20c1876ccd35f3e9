// SPDX-License-Identifier: BSD-2-Clause
// The lock with the futex under it: threads that sleep exclude each other, and a thread that waits
// for long does sleep.
#include "verbena/base/lock.hpp"

#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <thread>
#include <vector>

#include "verbena/link/clock.hpp"
#include "verbena/link/futex.hpp"

namespace verbena::link::test {
namespace {

TEST(FutexLock, ExcludesThreadsFromEachOther) {
  install_futex_lock_waiter();
  Lock lock;
  std::uint64_t value = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50'000; ++i) {
        const Guard guard(lock);
        value = value + 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(value, 200'000u);
}

// A thread that frees a lock does not wait for another one that is just falling asleep on it.
TEST(FutexLock, LosesNoWakeUp) {
  install_futex_lock_waiter();
  Lock lock;
  std::uint64_t value = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const Guard guard(lock);
        value = value + 1;
        // The thread holds the lock longer than the others spin, and differently long each round.
        const TimeNs end = monotonic_now_ns() + static_cast<TimeNs>(500 * ((i + t) % 16));
        while (monotonic_now_ns() < end) cpu_relax();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(value, 6000u);
}

// The waiter burns next to no processor time while the holder computes for 100 ms.
TEST(FutexLock, AWaiterSleeps) {
  install_futex_lock_waiter();
  Lock lock;
  lock.lock();
  std::atomic<bool> started{false};
  TimeNs burnt = 0;
  std::thread waiter([&] {
    started = true;
    lock.lock();
    lock.unlock();
    burnt = read_clock(CLOCK_THREAD_CPUTIME_ID);
  });
  while (!started) cpu_relax();
  const TimeNs end = monotonic_now_ns() + 100'000'000;
  while (monotonic_now_ns() < end) cpu_relax();
  lock.unlock();
  waiter.join();
  EXPECT_LT(burnt, 50'000'000u);
}

TEST(Clock, GoesOn) {
  const TimeNs first = monotonic_now_ns();
  EXPECT_LE(first, monotonic_now_ns());
  EXPECT_GT(realtime_now_ns(), 1'600'000'000'000'000'000u);
}

}  // namespace
}  // namespace verbena::link::test
