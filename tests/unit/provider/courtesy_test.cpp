// SPDX-License-Identifier: BSD-2-Clause
// Threads that poll in vain beside others.
#include "courtesy.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>

namespace verbena::provider {
namespace {

cpu_set_t affinity() {
  cpu_set_t set;
  EXPECT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  return set;
}

void run_on(int processor) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(static_cast<unsigned>(processor), &only);
  EXPECT_EQ(::sched_setaffinity(0, sizeof only, &only), 0);
}

// A thread that wants one processor, and all of it.
class Rival {
 public:
  explicit Rival(int processor)
      : thread_([this, processor] {
          run_on(processor);
          runs_.store(true);
          while (!stopping_.load()) {
          }
        }) {
    while (!runs_.load()) ::sched_yield();
  }
  ~Rival() {
    stopping_.store(true);
    thread_.join();
  }

 private:
  std::atomic<bool> stopping_{false};
  std::atomic<bool> runs_{false};
  std::thread thread_;
};

TEST(Courtesy, LeavesAProcessorThatAnotherTakesEachTime) {
  const cpu_set_t before = affinity();
  if (CPU_COUNT(&before) < 2) GTEST_SKIP() << "there is one processor only";
  std::thread([&] {
    Courtesy& courtesy = Courtesy::of_this_thread();
    const int here = ::sched_getcpu();
    const Rival rival(here);
    while (courtesy.moves() == 0) {
      if (::sched_getcpu() != here) {
        // The scheduler did it first: back, to where the rival is.
        run_on(here);
        ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
      }
      courtesy.give_way();
    }
    const cpu_set_t after = affinity();
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
  }).join();
}

TEST(Courtesy, StaysWhereItMayBeOnly) {
  std::thread([] {
    const int here = ::sched_getcpu();
    run_on(here);
    const cpu_set_t before = affinity();
    const Rival rival(here);
    for (int i = 0; i < 20; ++i) Courtesy::of_this_thread().give_way();
    EXPECT_EQ(Courtesy::of_this_thread().moves(), 0u);
    const cpu_set_t after = affinity();
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
  }).join();
}

TEST(Courtesy, KnowsWhetherItsTurnWasTaken) {
  std::thread([] {
    const int here = ::sched_getcpu();
    run_on(here);
    const Rival rival(here);
    // At last, whichever of the two the scheduler prefers.
    while (!Courtesy::of_this_thread().give_way().was_taken) {
    }
  }).join();
}

TEST(Courtesy, KnowsWhetherNobodyWantedItsTurn) {
  std::thread([] {
    // At last, however busy the machine is.
    while (Courtesy::of_this_thread().give_way().was_taken) {
    }
  }).join();
}

}  // namespace
}  // namespace verbena::provider
