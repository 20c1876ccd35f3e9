// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/queue/receive_queue.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <thread>
#include <vector>

#include "recording_sink.hpp"
#include "verbena/base/random.hpp"

namespace verbena::queue {
namespace {

using testing::RecordingSink;
using Posted = ReceiveQueue::Posted;

class ReceiveQueueTest : public ::testing::Test {
 protected:
  ReceiveQueue make(std::uint32_t capacity, std::uint32_t max_sges = 2) {
    ReceiveQueue::Options options;
    options.capacity = capacity;
    options.max_sges = max_sges;
    options.cookie = &cookie_;
    options.shared = true;
    return ReceiveQueue(options, sink_);
  }
  // Posts a receive whose buffers follow from its id.
  static Posted post(ReceiveQueue& queue, std::uint64_t id, std::uint32_t sges = 1) {
    std::vector<Sge> list;
    for (std::uint32_t i = 0; i < sges; ++i) {
      list.push_back(
          {id * 100 + i, static_cast<std::uint32_t>(id + i), static_cast<std::uint32_t>(i)});
    }
    return queue.post({id, list});
  }
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  // Takes a receive and frees its slot at once.
  static bool take(ReceiveQueue& queue, ActiveReceive& out) {
    if (!queue.take(out)) return false;
    queue.give_back();
    return true;
  }
  static std::uint64_t take(ReceiveQueue& queue) {
    ActiveReceive out;
    return take(queue, out) ? out.id : kNone;
  }

  RecordingSink sink_;
  int cookie_ = 0;
};

TEST_F(ReceiveQueueTest, GivesReceivesInTheOrderOfPosting) {
  ReceiveQueue queue = make(5);
  EXPECT_EQ(queue.count(), 0u);
  for (std::uint64_t id = 1; id <= 5; ++id) EXPECT_EQ(post(queue, id), Posted::kOk);
  EXPECT_EQ(queue.count(), 5u);
  for (std::uint64_t id = 1; id <= 5; ++id) EXPECT_EQ(take(queue), id);
  EXPECT_EQ(take(queue), kNone);
}

TEST_F(ReceiveQueueTest, AReceiveArrivesWithItsBuffers) {
  ReceiveQueue queue = make(4, 3);
  for (std::uint32_t sges = 0; sges <= 3; ++sges) {
    EXPECT_EQ(post(queue, 10 + sges, sges), Posted::kOk);
  }
  for (std::uint32_t sges = 0; sges <= 3; ++sges) {
    ActiveReceive out;
    ASSERT_TRUE(queue.take(out));
    EXPECT_EQ(out.id, 10 + sges);
    ASSERT_EQ(out.sge_count, sges);
    std::uint64_t capacity = 0;
    for (std::uint32_t i = 0; i < sges; ++i) {
      EXPECT_EQ(out.sges[i].address, out.id * 100 + i);
      EXPECT_EQ(out.sges[i].length, out.id + i);
      EXPECT_EQ(out.sges[i].key, i);
      capacity += out.sges[i].length;
    }
    EXPECT_EQ(out.capacity, capacity);
  }
}

TEST_F(ReceiveQueueTest, LengthsAddUpBeyond32Bits) {
  ReceiveQueue queue = make(1);
  const Sge halves[] = {{0, 0xffffffffu, 0}, {0, 0xffffffffu, 0}};
  ASSERT_EQ(queue.post({1, halves}), Posted::kOk);
  ActiveReceive out;
  ASSERT_TRUE(queue.take(out));
  EXPECT_EQ(out.capacity, 0x1fffffffeull);
}

TEST_F(ReceiveQueueTest, RefusesWhatDoesNotFitAndStaysAsItWas) {
  ReceiveQueue queue = make(2, 2);
  EXPECT_EQ(post(queue, 1, 3), Posted::kTooManySges);
  EXPECT_EQ(queue.count(), 0u);
  EXPECT_EQ(post(queue, 1), Posted::kOk);
  EXPECT_EQ(post(queue, 2), Posted::kOk);
  EXPECT_EQ(post(queue, 3), Posted::kFull);
  EXPECT_EQ(take(queue), 1u);
  EXPECT_EQ(post(queue, 3), Posted::kOk);
  EXPECT_EQ(take(queue), 2u);
  EXPECT_EQ(take(queue), 3u);
}

TEST_F(ReceiveQueueTest, TheMostBuffersThatAReceiveMayHave) {
  ReceiveQueue queue = make(2, kMaxSges);
  EXPECT_EQ(queue.max_sges(), kMaxSges);
  EXPECT_EQ(post(queue, 1, kMaxSges), Posted::kOk);
  EXPECT_EQ(post(queue, 2, kMaxSges + 1), Posted::kTooManySges);
  ActiveReceive out;
  ASSERT_TRUE(queue.take(out));
  EXPECT_EQ(out.sges[kMaxSges - 1].key, kMaxSges - 1);
}

TEST_F(ReceiveQueueTest, BehavesLikeAPlainQueueWhateverTheOrderOfCalls) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Random random(seed);
    auto capacity = static_cast<std::uint32_t>(1 + random.below(20));
    ReceiveQueue queue = make(capacity, 3);
    std::deque<std::uint64_t> model;
    std::uint64_t next = 1;
    for (int step = 0; step < 1000; ++step) {
      const std::uint64_t what = random.below(100);
      if (what < 48) {
        const bool fits = model.size() < capacity;
        const auto sges = static_cast<std::uint32_t>(random.below(4));
        ASSERT_EQ(post(queue, next, sges), fits ? Posted::kOk : Posted::kFull) << "seed " << seed;
        if (fits) model.push_back(next);
        ++next;
      } else if (what < 95) {
        const std::uint64_t expected = model.empty() ? kNone : model.front();
        ASSERT_EQ(take(queue), expected) << "seed " << seed << " step " << step;
        if (!model.empty()) model.pop_front();
      } else {
        const auto wanted = static_cast<std::uint32_t>(random.below(24));
        const bool works = wanted != 0 && wanted >= model.size();
        ASSERT_EQ(queue.resize(wanted), works) << "seed " << seed;
        if (works) capacity = wanted;
      }
      ASSERT_EQ(queue.count(), model.size()) << "seed " << seed;
      ASSERT_EQ(queue.capacity(), capacity);
    }
  }
}

TEST_F(ReceiveQueueTest, ClearForgetsEverything) {
  ReceiveQueue queue = make(3);
  for (std::uint64_t id = 1; id <= 3; ++id) post(queue, id);
  queue.clear();
  EXPECT_EQ(queue.count(), 0u);
  EXPECT_EQ(take(queue), kNone);
  EXPECT_EQ(post(queue, 9), Posted::kOk);
  EXPECT_EQ(take(queue), 9u);
}

TEST_F(ReceiveQueueTest, TheLimitIsToldOnceWhenFewerRemain) {
  ReceiveQueue queue = make(10);
  for (std::uint64_t id = 0; id < 10; ++id) post(queue, id);
  EXPECT_TRUE(queue.set_limit(8));
  EXPECT_EQ(queue.limit(), 8u);
  take(queue);
  take(queue);
  EXPECT_EQ(sink_.async_events, 0) << "eight remain, not fewer";
  take(queue);
  EXPECT_EQ(sink_.async_events, 1);
  EXPECT_EQ(sink_.last_event, AsyncEvent::kSrqLimitReached);
  EXPECT_EQ(sink_.last_cookie, &cookie_);
  EXPECT_EQ(queue.limit(), 0u) << "it has to be armed anew";
  take(queue);
  EXPECT_EQ(sink_.async_events, 1);
  EXPECT_TRUE(queue.set_limit(8));
  take(queue);
  EXPECT_EQ(sink_.async_events, 2);
}

TEST_F(ReceiveQueueTest, LimitZeroDisarmsAndTooMuchIsRefused) {
  ReceiveQueue queue = make(4);
  for (std::uint64_t id = 0; id < 4; ++id) post(queue, id);
  EXPECT_FALSE(queue.set_limit(5));
  EXPECT_EQ(queue.limit(), 0u);
  EXPECT_TRUE(queue.set_limit(4));
  EXPECT_TRUE(queue.set_limit(0));
  while (queue.count() != 0) take(queue);
  EXPECT_EQ(sink_.async_events, 0);
}

TEST_F(ReceiveQueueTest, ResizeKeepsWhatWaitsEvenAcrossTheWrap) {
  ReceiveQueue queue = make(4, 3);
  for (std::uint64_t id = 0; id < 4; ++id) post(queue, id);
  take(queue);
  take(queue);
  post(queue, 4, 3);
  post(queue, 5);
  EXPECT_FALSE(queue.resize(3));
  EXPECT_FALSE(queue.resize(0));
  EXPECT_EQ(queue.capacity(), 4u);
  EXPECT_TRUE(queue.resize(6));
  EXPECT_EQ(post(queue, 6), Posted::kOk);
  EXPECT_EQ(post(queue, 7), Posted::kOk);
  EXPECT_EQ(post(queue, 8), Posted::kFull);
  EXPECT_EQ(take(queue), 2u);
  EXPECT_EQ(take(queue), 3u);
  ActiveReceive out;
  ASSERT_TRUE(queue.take(out));
  EXPECT_EQ(out.id, 4u);
  EXPECT_EQ(out.sge_count, 3u);
  EXPECT_EQ(out.sges[2].address, 402u);
  for (std::uint64_t id = 5; id <= 7; ++id) EXPECT_EQ(take(queue), id);
}

TEST_F(ReceiveQueueTest, AnUnusedQueueCanBeResized) {
  ReceiveQueue queue = make(2);
  EXPECT_TRUE(queue.resize(100));
  for (std::uint64_t id = 0; id < 100; ++id) ASSERT_EQ(post(queue, id), Posted::kOk);
  EXPECT_EQ(post(queue, 100), Posted::kFull);
}

// --- slots ---

class ReceiveSlots : public ReceiveQueueTest {
 protected:
  // Completes the oldest receive in this completion queue.
  static void complete(ReceiveQueue& queue, CompletionQueue& cq, std::uint32_t account) {
    ActiveReceive out;
    ASSERT_TRUE(queue.take(out));
    Completion c;
    c.id = out.id;
    c.account = account;
    c.slots = 1;
    ASSERT_TRUE(cq.push(c, false));
  }
  static void poll(CompletionQueue& cq) {
    Completion c;
    ASSERT_TRUE(cq.poll_one(c));
  }
  CompletionQueue cq_{{.capacity = 100}, sink_};
  CompletionQueue other_{{.capacity = 100}, sink_};
};

TEST_F(ReceiveSlots, AreFreeWhenTheirCompletionWasPolled) {
  ReceiveQueue queue = make(3);
  const std::uint32_t account = queue.attach(cq_);
  for (std::uint64_t id = 1; id <= 3; ++id) ASSERT_EQ(post(queue, id), Posted::kOk);
  EXPECT_EQ(post(queue, 4), Posted::kFull);
  for (int i = 0; i < 3; ++i) complete(queue, cq_, account);
  EXPECT_EQ(queue.count(), 0u);
  EXPECT_EQ(post(queue, 4), Posted::kFull) << "nobody has polled";
  poll(cq_);
  EXPECT_EQ(post(queue, 4), Posted::kOk);
  EXPECT_EQ(post(queue, 5), Posted::kFull);
  queue.detach(cq_);
}

// Slots of a shared queue: its users with one completion queue have one account there.
TEST_F(ReceiveSlots, AreCountedInAllQueuesWhereItsUsersComplete) {
  ReceiveQueue queue = make(4);
  const std::uint32_t here = queue.attach(cq_);
  const std::uint32_t there = queue.attach(other_);
  EXPECT_EQ(queue.attach(cq_), here);
  for (int round = 0; round < 10; ++round) {
    for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_EQ(post(queue, id), Posted::kOk) << round;
    complete(queue, cq_, here);
    complete(queue, other_, there);
    complete(queue, other_, there);
    complete(queue, cq_, here);
    ASSERT_EQ(post(queue, 5), Posted::kFull);
    for (CompletionQueue* cq : {&cq_, &other_}) {
      poll(*cq);
      poll(*cq);
    }
  }
  // One user leaves and the other stays. What was polled before is still free then.
  queue.detach(cq_);
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_EQ(post(queue, id), Posted::kOk);
  complete(queue, cq_, here);
  poll(cq_);
  queue.detach(cq_);
  queue.detach(other_);
  EXPECT_EQ(post(queue, 5), Posted::kOk);
  EXPECT_EQ(post(queue, 6), Posted::kFull);
}

// A reader looks at completions, and reads some of them, when the last user with this queue leaves.
TEST_F(ReceiveSlots, OfWhatAReaderHasSeenAreFreeWhenTheAccountIsClosed) {
  ReceiveQueue queue = make(4);
  const std::uint32_t account = queue.attach(cq_);
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_EQ(post(queue, id), Posted::kOk) << round;
    for (int i = 0; i < 4; ++i) complete(queue, cq_, account);
    const auto seen = cq_.peek(4);
    ASSERT_EQ(seen.size(), 4u);
    cq_.note_read(seen[0]);
    queue.detach(cq_);
    for (std::size_t i = 1; i < 4; ++i) cq_.note_read(seen[i]);
    Completion last;
    cq_.consume(4, last);
    ASSERT_EQ(queue.attach(cq_), account);
  }
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_EQ(post(queue, id), Posted::kOk);
  EXPECT_EQ(post(queue, 5), Posted::kFull);
  queue.detach(cq_);
}

TEST_F(ReceiveSlots, OfWhatIsForgottenAreFree) {
  ReceiveQueue queue = make(2);
  const std::uint32_t account = queue.attach(cq_);
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t id = 1; id <= 2; ++id) ASSERT_EQ(post(queue, id), Posted::kOk);
    complete(queue, cq_, account);
    queue.clear();
    poll(cq_);  // a completion from before the clear
  }
  ActiveReceive out;
  for (std::uint64_t id = 1; id <= 2; ++id) ASSERT_EQ(post(queue, id), Posted::kOk);
  ASSERT_TRUE(queue.take(out));
  queue.give_back();
  EXPECT_EQ(post(queue, 3), Posted::kOk);
  EXPECT_EQ(post(queue, 4), Posted::kFull);
  queue.detach(cq_);
}

// In a shared queue every receive goes to exactly one taker.
TEST_F(ReceiveQueueTest, ManyThreadsPostAndTake) {
  constexpr std::uint64_t kPosters = 2;
  constexpr std::uint64_t kEach = 5000;
  ReceiveQueue queue = make(64);
  std::atomic<std::uint64_t> taken{0};
  std::vector<std::thread> threads;
  for (std::uint64_t p = 0; p < kPosters; ++p) {
    threads.emplace_back([&, p] {
      for (std::uint64_t i = 0; i < kEach;) {
        const Posted posted = post(queue, p * kEach + i);
        if (posted == Posted::kOk) {
          ++i;
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  std::vector<std::vector<std::uint64_t>> got(2);
  for (auto& mine : got) {
    threads.emplace_back([&] {
      ActiveReceive out;
      while (taken.load(std::memory_order_relaxed) < kPosters * kEach) {
        if (!take(queue, out)) {
          std::this_thread::yield();
          continue;
        }
        EXPECT_EQ(out.sges[0].address, out.id * 100);
        mine.push_back(out.id);
        taken.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  std::vector<int> seen(kPosters * kEach, 0);
  for (const auto& mine : got) {
    for (std::uint64_t id : mine) ++seen[id];
  }
  for (int times : seen) ASSERT_EQ(times, 1);
}

// A program may call ibv_query_srq while messages come.
TEST_F(ReceiveQueueTest, IsAskedWhileItIsAtWork) {
  constexpr std::uint64_t kRounds = 2000;
  ReceiveQueue queue = make(4);
  std::atomic<bool> done{false};
  std::thread taker([&] {
    ActiveReceive out;
    while (!done.load(std::memory_order_acquire)) {
      if (!take(queue, out)) std::this_thread::yield();
    }
  });
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    EXPECT_TRUE(queue.set_limit(2));
    while (post(queue, i) != Posted::kOk) std::this_thread::yield();
    while (queue.limit() != 0) std::this_thread::yield();
    EXPECT_EQ(queue.capacity(), 4u);
  }
  done.store(true, std::memory_order_release);
  taker.join();
}

}  // namespace
}  // namespace verbena::queue
