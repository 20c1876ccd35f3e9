// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/queue/completion_queue.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <thread>
#include <vector>

#include "completion_queue_fixture.hpp"
#include "verbena/base/random.hpp"

namespace verbena::queue {
namespace {

using testing::completion;
using testing::CompletionQueueTest;
using testing::RecordingSink;

using Ids = std::vector<std::uint64_t>;

TEST_F(CompletionQueueTest, GivesCompletionsInOrderInBatchesOfAnySize) {
  CompletionQueue cq = make(10);
  EXPECT_TRUE(cq.is_empty());
  for (std::uint64_t i = 0; i < 7; ++i) EXPECT_TRUE(cq.push(completion(i), false));
  EXPECT_FALSE(cq.is_empty());
  Completion out[16];
  EXPECT_EQ(cq.poll({out, std::size_t{0}}), 0u);
  EXPECT_EQ(cq.poll({out, 3}), 3u);
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(out[i].id, i);
  EXPECT_EQ(cq.poll(out), 4u);
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(out[i].id, 3 + i);
  EXPECT_EQ(cq.poll(out), 0u);
  EXPECT_FALSE(cq.poll_one(out[0]));
  EXPECT_TRUE(cq.is_empty());
}

TEST_F(CompletionQueueTest, EveryFieldArrives) {
  CompletionQueue cq = make(1);
  Completion in = completion(1, 2, Status::kRemoteAccess);
  in.timestamp = 3;
  in.byte_length = 4;
  in.immediate = 5;
  in.source_qpn = 6;
  in.opcode = CompletionOpcode::kReceiveWriteImmediate;
  in.flags = kHasGrh | kHasImmediate;
  in.source_lid = 7;
  in.vendor_error = 8;
  in.tag = 9;
  EXPECT_TRUE(cq.push(in, false));
  Completion out;
  ASSERT_TRUE(cq.poll_one(out));
  EXPECT_EQ(out.qpn, 2u);
  EXPECT_EQ(out.status, Status::kRemoteAccess);
  EXPECT_EQ(out.timestamp, 3u);
  EXPECT_EQ(out.byte_length, 4u);
  EXPECT_EQ(out.immediate, 5u);
  EXPECT_EQ(out.source_qpn, 6u);
  EXPECT_EQ(out.opcode, CompletionOpcode::kReceiveWriteImmediate);
  EXPECT_EQ(out.flags, kHasGrh | kHasImmediate);
  EXPECT_EQ(out.source_lid, 7u);
  EXPECT_EQ(out.vendor_error, 8u);
  EXPECT_EQ(out.tag, 9u);
}

// Pushes and polls at random, compared with a plain queue: wraps, grows and fills up.
TEST_F(CompletionQueueTest, BehavesLikeAPlainQueueWhateverTheOrderOfCalls) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Random random(seed);
    const auto capacity = static_cast<std::uint32_t>(1 + random.below(300));
    CompletionQueue cq = make(capacity);
    std::deque<std::uint64_t> model;
    std::uint64_t next = 0;
    for (int step = 0; step < 400; ++step) {
      for (std::uint64_t n = random.below(40); n != 0 && model.size() < capacity; --n) {
        ASSERT_TRUE(cq.push(completion(next), false)) << "seed " << seed;
        model.push_back(next++);
      }
      Completion out[40];
      const std::size_t want = random.below(40);
      const std::size_t got = cq.poll({out, want});
      ASSERT_EQ(got, std::min(want, model.size())) << "seed " << seed;
      for (std::size_t i = 0; i < got; ++i) {
        ASSERT_EQ(out[i].id, model.front()) << "seed " << seed;
        model.pop_front();
      }
      ASSERT_EQ(cq.is_empty(), model.empty());
    }
    EXPECT_FALSE(cq.in_error());
  }
  EXPECT_EQ(sink_.async_events, 0);
}

TEST_F(CompletionQueueTest, HoldsExactlyItsCapacityHoweverLarge) {
  for (std::uint32_t capacity : {1u, 63u, 64u, 65u, 1000u, 100000u}) {
    CompletionQueue cq = make(capacity);
    EXPECT_EQ(cq.capacity(), capacity);
    for (std::uint64_t i = 0; i < capacity; ++i) ASSERT_TRUE(cq.push(completion(i), false));
    EXPECT_FALSE(cq.push(completion(capacity), false)) << capacity;
    const Ids ids = drain(cq);
    ASSERT_EQ(ids.size(), capacity);
    for (std::uint64_t i = 0; i < capacity; ++i) ASSERT_EQ(ids[i], i);
  }
}

TEST_F(CompletionQueueTest, AMillionEntriesCostNothingUntilTheyAreUsed) {
  std::vector<std::unique_ptr<CompletionQueue>> many;
  for (int i = 0; i < 1000; ++i) {
    CompletionQueue::Options options;
    options.capacity = 4'000'000;
    many.push_back(std::make_unique<CompletionQueue>(options, sink_));
  }
  EXPECT_TRUE(many.back()->push(completion(1), false));
}

TEST_F(CompletionQueueTest, OverflowIsToldOnceAndEndsTheQueue) {
  CompletionQueue cq = make(2);
  EXPECT_TRUE(cq.push(completion(1), false));
  EXPECT_TRUE(cq.push(completion(2), false));
  EXPECT_FALSE(cq.in_error());
  EXPECT_FALSE(cq.push(completion(3), false));
  EXPECT_TRUE(cq.in_error());
  EXPECT_EQ(sink_.async_events, 1);
  EXPECT_EQ(sink_.last_event, AsyncEvent::kCqError);
  EXPECT_EQ(sink_.last_cookie, &cookie_);
  EXPECT_FALSE(cq.push(completion(4), false));
  EXPECT_EQ(drain(cq), (Ids{1, 2})) << "what was complete can still be read";
  EXPECT_FALSE(cq.push(completion(5), false)) << "a queue in error stays so";
  EXPECT_EQ(sink_.async_events, 1);
}

TEST_F(CompletionQueueTest, ASnapshotShowsWhatItHoldsAndWaitsFor) {
  CompletionQueue cq = make(2);
  EXPECT_EQ(cq.snapshot().armed, ArmedFor::kNothing);
  cq.arm(true);
  EXPECT_TRUE(cq.push(completion(1), false));
  CompletionQueue::Snapshot now = cq.snapshot();
  EXPECT_EQ(now.capacity, 2u);
  EXPECT_EQ(now.unpolled, 1u);
  EXPECT_EQ(now.armed, ArmedFor::kSolicited);
  EXPECT_FALSE(now.has_overrun);
  EXPECT_TRUE(cq.push(completion(2), true));
  EXPECT_FALSE(cq.push(completion(3), false));
  now = cq.snapshot();
  EXPECT_EQ(now.unpolled, 2u);
  EXPECT_EQ(now.armed, ArmedFor::kNothing) << "the event has told";
  EXPECT_TRUE(now.has_overrun);
}

TEST_F(CompletionQueueTest, IgnoringOverrunKeepsTheNewest) {
  CompletionQueue cq = make(3, true);
  for (std::uint64_t i = 0; i < 10; ++i) EXPECT_TRUE(cq.push(completion(i), false));
  EXPECT_EQ(drain(cq), (Ids{7, 8, 9}));
  EXPECT_FALSE(cq.in_error());
  EXPECT_EQ(sink_.async_events, 0);
}

TEST_F(CompletionQueueTest, ResizeKeepsWhatWaitsAndRefusesToLoseIt) {
  CompletionQueue cq = make(4);
  for (std::uint64_t i = 0; i < 4; ++i) cq.push(completion(i), false);
  EXPECT_FALSE(cq.resize(3));
  EXPECT_EQ(cq.capacity(), 4u);
  EXPECT_TRUE(cq.resize(200));
  EXPECT_EQ(cq.capacity(), 200u);
  for (std::uint64_t i = 4; i < 200; ++i) ASSERT_TRUE(cq.push(completion(i), false));
  EXPECT_FALSE(cq.resize(199));
  Completion out[150];
  EXPECT_EQ(cq.poll(out), 150u);
  EXPECT_TRUE(cq.resize(50));
  EXPECT_FALSE(cq.push(completion(200), false)) << "full at the new size";
  const Ids rest = drain(cq);
  ASSERT_EQ(rest.size(), 50u);
  EXPECT_EQ(rest.front(), 150u);
  EXPECT_EQ(rest.back(), 199u);
}

TEST_F(CompletionQueueTest, PurgeForgetsOneQueuePairAndKeepsTheOrderOfTheRest) {
  CompletionQueue cq = make(100);
  // The completions do not begin at the ring's start, so that the kept ones wrap.
  for (std::uint64_t i = 0; i < 60; ++i) cq.push(completion(i), false);
  drain(cq);
  for (std::uint64_t i = 0; i < 30; ++i) {
    cq.push(completion(i, static_cast<std::uint32_t>(i % 3)), false);
  }
  cq.purge(1);
  Ids expected;
  for (std::uint64_t i = 0; i < 30; ++i) {
    if (i % 3 != 1) expected.push_back(i);
  }
  cq.purge(77);
  EXPECT_EQ(drain(cq), expected);
  cq.push(completion(1, 1), false);
  cq.purge(1);
  EXPECT_TRUE(cq.is_empty());
}

TEST_F(CompletionQueueTest, RemembersWhatItsOwnerWants) {
  CompletionQueue::Options options;
  options.clock = +[]() noexcept -> std::uint64_t { return 1234; };
  options.cookie = &cookie_;
  CompletionQueue cq(options, sink_);
  EXPECT_EQ(cq.cookie(), &cookie_);
  EXPECT_TRUE(cq.push(completion(1), false));
  Completion out;
  ASSERT_TRUE(cq.poll_one(out));
  EXPECT_EQ(out.timestamp, 1234u);
}

// Queue pairs of several threads fill the queue, and several threads empty it. No completion is
// lost or doubled, and each queue pair's completions stay in order.
TEST_F(CompletionQueueTest, ManyThreadsShareIt) {
  constexpr std::uint32_t kProducers = 3;
  constexpr std::uint64_t kEach = 5000;
  CompletionQueue cq = make(kProducers * kEach);
  std::atomic<std::uint64_t> taken{0};
  std::vector<std::thread> threads;
  for (std::uint32_t p = 0; p < kProducers; ++p) {
    threads.emplace_back([&, p] {
      for (std::uint64_t i = 0; i < kEach; ++i) ASSERT_TRUE(cq.push(completion(i, p), false));
    });
  }
  std::vector<std::vector<Completion>> got(2);
  for (std::size_t c = 0; c < got.size(); ++c) {
    threads.emplace_back([&, c] {
      Completion out[16];
      while (taken.load(std::memory_order_relaxed) < kProducers * kEach) {
        const std::size_t n = cq.poll(out);
        if (n == 0) std::this_thread::yield();
        got[c].insert(got[c].end(), out, out + n);
        taken.fetch_add(n, std::memory_order_relaxed);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  std::vector<std::uint64_t> sum(kProducers, 0);
  for (const auto& mine : got) {
    std::vector<std::uint64_t> next(kProducers, 0);
    for (const Completion& c : mine) {
      EXPECT_GE(c.id, next[c.qpn]);
      next[c.qpn] = c.id + 1;
      sum[c.qpn] += c.id;
    }
  }
  for (std::uint64_t s : sum) EXPECT_EQ(s, kEach * (kEach - 1) / 2);
}

// --- slots that completions free ---

class Freeing : public CompletionQueueTest {
 protected:
  static Completion freeing(std::uint32_t account, std::uint16_t slots, std::uint32_t qpn = 1) {
    Completion c = completion(0, qpn);
    c.account = account;
    c.slots = slots;
    return c;
  }
};

TEST_F(Freeing, IsCountedAsTheyArePolled) {
  CompletionQueue cq = make(200);
  std::vector<std::uint32_t> accounts;
  for (int i = 0; i < 20; ++i) accounts.push_back(cq.open_account());
  std::vector<std::uint32_t> expected(accounts.size());
  for (std::size_t i = 0; i < 60; ++i) {
    const auto slots = static_cast<std::uint16_t>(1 + i % 5);
    cq.push(freeing(accounts[i % accounts.size()], slots), false);
    cq.push(completion(i), false);  // frees no slot
  }
  for (const std::uint32_t account : accounts) EXPECT_EQ(cq.freed(account).total(), 0u);
  for (std::size_t i = 0; i < 60; ++i) {
    Completion out[2];
    ASSERT_EQ(cq.poll(out), 2u);
    expected[i % accounts.size()] += static_cast<std::uint32_t>(1 + i % 5);
    for (std::size_t k = 0; k < accounts.size(); ++k) {
      ASSERT_EQ(cq.freed(accounts[k]).total(), expected[k]);
    }
  }
}

TEST_F(Freeing, IsCountedForAReaderAsItReads) {
  CompletionQueue cq = make(100);
  const std::uint32_t account = cq.open_account();
  for (int i = 0; i < 4; ++i) cq.push(freeing(account, 1), false);
  const auto seen = cq.peek(3);
  EXPECT_EQ(cq.freed(account).total(), 0u);
  cq.note_read(seen[0]);
  EXPECT_EQ(cq.freed(account).total(), 1u);
  cq.note_read(seen[1]);
  Completion last;
  cq.consume(2, last);
  EXPECT_EQ(cq.freed(account).total(), 2u);
  drain(cq);
  EXPECT_EQ(cq.freed(account).total(), 4u);
}

TEST_F(Freeing, IsCountedOfWhatIsForgotten) {
  CompletionQueue cq = make(4, true);
  const std::uint32_t account = cq.open_account();
  for (int i = 0; i < 6; ++i) cq.push(freeing(account, 1, 5), false);
  EXPECT_EQ(cq.freed(account).total(), 2u) << "overrun";
  cq.purge(5);
  EXPECT_EQ(cq.freed(account).total(), 6u);
}

// Another work queue has the account then.
TEST_F(Freeing, EndsWithTheAccount) {
  CompletionQueue cq = make(300);
  const std::uint32_t account = cq.open_account();
  const std::uint32_t other = cq.open_account();
  for (int i = 0; i < 4; ++i) cq.push(freeing(i % 2 == 0 ? account : other, 1), false);
  const auto seen = cq.peek(2);
  for (int i = 0; i < 200; ++i) cq.push(completion(1), false);  // the ring grows into a new one
  cq.close_account(account);
  EXPECT_EQ(cq.open_account(), account);
  const std::uint32_t before = cq.freed(account).total();
  cq.note_read(seen[0]);
  cq.note_read(seen[1]);
  Completion last;
  cq.consume(2, last);
  drain(cq);
  EXPECT_EQ(cq.freed(account).total(), before);
  EXPECT_EQ(cq.freed(other).total(), 2u);
}

// --- the reader that looks before it takes ---

class Peeking : public ::testing::Test {
 protected:
  void push(std::uint64_t id, std::uint32_t qpn = 1) {
    Completion c;
    c.id = id;
    c.qpn = qpn;
    EXPECT_TRUE(cq_.push(c, false));
  }
  std::vector<std::uint64_t> peek(std::size_t count) {
    seen_ = cq_.peek(count);
    return ids(seen_);
  }
  void consume(std::size_t count) {
    const std::uint64_t expected = count != 0 ? seen_[count - 1].id : 0;
    Completion last;
    cq_.consume(count, last);
    EXPECT_EQ(last.id, expected);
  }
  std::vector<std::uint64_t> poll(std::size_t count = 100) {
    std::vector<Completion> out(count);
    out.resize(cq_.poll(out));
    return ids(out);
  }
  static std::vector<std::uint64_t> ids(std::span<const Completion> list) {
    std::vector<std::uint64_t> out;
    for (const Completion& c : list) out.push_back(c.id);
    return out;
  }
  using Ids = std::vector<std::uint64_t>;
  RecordingSink sink_;
  CompletionQueue cq_{{.capacity = 100}, sink_};
  std::span<const Completion> seen_;  // seen by the last peek, in place
};

TEST_F(Peeking, TakesNothingUntilItIsSaid) {
  for (std::uint64_t id = 1; id <= 5; ++id) push(id);
  EXPECT_EQ(peek(3), (Ids{1, 2, 3}));
  consume(2);
  EXPECT_EQ(peek(8), (Ids{3, 4, 5}));
  consume(3);
  EXPECT_EQ(peek(8), Ids{});
  EXPECT_TRUE(cq_.is_empty());
}

TEST_F(Peeking, LeavesWhatComesBehindToAPoll) {
  for (std::uint64_t id = 1; id <= 5; ++id) push(id);
  EXPECT_EQ(peek(2), (Ids{1, 2}));
  EXPECT_EQ(poll(2), (Ids{3, 4}));
  EXPECT_EQ(ids(seen_), (Ids{1, 2}));
  consume(1);
  EXPECT_EQ(poll(), (Ids{2, 5}));
}

TEST_F(Peeking, OutlastsGrowthAndPurging) {
  for (std::uint64_t id = 1; id <= 4; ++id) push(id, static_cast<std::uint32_t>(id % 2));
  EXPECT_EQ(peek(2), (Ids{1, 2}));
  for (std::uint64_t id = 5; id <= 90; ++id) push(id, static_cast<std::uint32_t>(id % 2));
  cq_.purge(1);
  EXPECT_EQ(ids(seen_), (Ids{1, 2}));
  consume(1);
  EXPECT_EQ(poll(3), (Ids{2, 4, 6}));
}

// A destroyed queue pair has no completions any more.
TEST_F(Peeking, WhatItLeavesOfAPurgedQueuePairGoes) {
  for (std::uint64_t id = 1; id <= 6; ++id) push(id, static_cast<std::uint32_t>(id % 2));
  EXPECT_EQ(peek(4), (Ids{1, 2, 3, 4}));
  cq_.purge(1);
  EXPECT_EQ(ids(seen_), (Ids{1, 2, 3, 4}));
  consume(1);
  EXPECT_EQ(poll(3), (Ids{2, 4, 6}));
  push(7, 1);  // a queue pair may get the number later
  EXPECT_EQ(poll(1), (Ids{7}));
}

// The completions that the reader looks at do not move, however often others come round the ring.
TEST_F(Peeking, KeepsWhatItSeesWhileOthersFillAndPoll) {
  std::uint64_t next = 1;
  while (next <= 10) push(next++);
  EXPECT_EQ(peek(4), (Ids{1, 2, 3, 4}));
  std::uint64_t expected = 5;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 7; ++i) push(next++);
    for (const std::uint64_t id : poll(7)) ASSERT_EQ(id, expected++);
    ASSERT_EQ(ids(seen_), (Ids{1, 2, 3, 4})) << "round " << round;
  }
  consume(3);
  EXPECT_EQ(poll(2), (Ids{4, expected}));
}

// A look ends at the ring's end. The next look sees the rest.
TEST_F(Peeking, ComesRoundTheEndOfTheRing) {
  std::uint64_t next = 1, expected = 1;
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 10; ++i) push(next++);
    for (std::size_t taken = 0; taken < 10;) {
      const Ids seen = peek(10);
      ASSERT_FALSE(seen.empty());
      for (const std::uint64_t id : seen) ASSERT_EQ(id, expected++);
      consume(seen.size());
      taken += seen.size();
    }
  }
  EXPECT_TRUE(cq_.is_empty());
}

TEST_F(Peeking, LosesToAnOverrunThatIsIgnored) {
  CompletionQueue small({.capacity = 3, .ignore_overrun = true}, sink_);
  const auto add = [&](std::uint64_t id) {
    Completion c;
    c.id = id;
    small.push(c, false);
  };
  for (std::uint64_t id = 1; id <= 3; ++id) add(id);
  const std::span<const Completion> seen = small.peek(2);
  add(4);  // overwrites completion 1
  EXPECT_EQ(ids(seen), (Ids{1, 2}));
  Completion last;
  small.consume(2, last);
  EXPECT_EQ(last.id, 2u);
  std::vector<Completion> rest(5);
  rest.resize(small.poll(rest));
  EXPECT_EQ(ids(rest), (Ids{3, 4}));
}

}  // namespace
}  // namespace verbena::queue
