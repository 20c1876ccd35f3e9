// SPDX-License-Identifier: BSD-2-Clause
// When a thread that polls in vain yields its processor.
#include "verbena/progress/poll_yield.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <initializer_list>
#include <thread>

namespace verbena::provider {
namespace {

constexpr TimeNs kSoon = 1;
constexpr TimeNs kLate = PollYield::kAfter + 1;
constexpr Turn kOfPeer{true, 2 * PollYield::kAfter - 1};
constexpr Turn kOfSomebodyElse{true, 2 * PollYield::kAfter};
constexpr Turn kOfNobody{false, 200};

class PollYieldTest : public ::testing::Test {
 protected:
  void waits_with(std::initializer_list<Turn> turns) {
    for (const Turn& turn : turns) poll_yield_.note(turn);
    poll_yield_.found();
  }
  int peers_until_soon() {
    for (int count = 0; count < 100'000; ++count) {
      if (poll_yield_.is_due(kSoon)) return count;
      waits_with({kOfPeer});
    }
    return -1;
  }

  PollYield poll_yield_;
};

TEST_F(PollYieldTest, BeginsAfterARoundTrip) {
  EXPECT_FALSE(poll_yield_.is_due(PollYield::kAfter));
  EXPECT_TRUE(poll_yield_.is_due(kLate));
}

TEST_F(PollYieldTest, BeginsAtOnceWherePeersTakeTheTurn) {
  EXPECT_EQ(peers_until_soon(), 2);
  for (int i = 0; i < 10; ++i) {
    waits_with({kOfPeer});
    EXPECT_TRUE(poll_yield_.is_due(kSoon));
  }
}

// Some schedulers give every other yield straight back.
TEST_F(PollYieldTest, OneTurnOfAWaitIsEnough) {
  for (int i = 0; i < 2; ++i) waits_with({kOfNobody, kOfPeer, kOfNobody});
  EXPECT_TRUE(poll_yield_.is_due(kSoon));
}

TEST_F(PollYieldTest, WhatComesWithoutATurnTeachesNothing) {
  peers_until_soon();
  for (int i = 0; i < 10; ++i) waits_with({});
  EXPECT_TRUE(poll_yield_.is_due(kSoon));
}

TEST_F(PollYieldTest, EndsWhereNobodyTakesTheTurn) {
  peers_until_soon();
  waits_with({kOfNobody, kOfNobody});
  EXPECT_FALSE(poll_yield_.is_due(kSoon));
  EXPECT_EQ(peers_until_soon(), 1) << "which was no loss";
}

// A turn that finds something by chance is no reason to start yielding again.
TEST_F(PollYieldTest, BeginsWherePeersTakeTheTurnMoreOftenThanNot) {
  peers_until_soon();
  waits_with({kOfSomebodyElse});
  int count = 0;
  for (; !poll_yield_.is_due(kSoon) && count < 1000; ++count) {
    waits_with({kOfPeer});
    waits_with({kOfPeer});
    waits_with({kOfNobody});
  }
  EXPECT_LE(count, 32);
}

TEST_F(PollYieldTest, EndsWhereSomebodyElseTakesTheTurnAndIsDearerThen) {
  peers_until_soon();
  int before = 0;
  for (int i = 0; i < 3; ++i) {
    waits_with({kOfPeer, kOfSomebodyElse, kOfPeer});
    EXPECT_FALSE(poll_yield_.is_due(kSoon));
    const int count = peers_until_soon();
    EXPECT_GT(count, before);
    before = count;
  }
}

TEST_F(PollYieldTest, NeverBeginsWhereSomebodyElseTakesEachTurn) {
  for (int i = 0; i < 100; ++i) {
    waits_with({kOfSomebodyElse});
    ASSERT_FALSE(poll_yield_.is_due(kSoon));
  }
}

void run_on(int processor) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(static_cast<unsigned>(processor), &only);
  EXPECT_EQ(::sched_setaffinity(0, sizeof only, &only), 0);
}

// A thread that uses one processor all the time.
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

TEST(PollYieldTurn, KnowsWhetherItsTurnWasTaken) {
  std::thread([] {
    const int here = ::sched_getcpu();
    run_on(here);
    const Rival rival(here);
    // This ends at some time, whichever thread the scheduler prefers.
    while (!PollYield::give_turn().was_taken) {
    }
  }).join();
}

TEST(PollYieldTurn, KnowsWhetherNobodyWantedItsTurn) {
  std::thread([] {
    // This ends at some time, however busy the machine is.
    while (PollYield::give_turn().was_taken) {
    }
  }).join();
}

}  // namespace
}  // namespace verbena::provider
