// SPDX-License-Identifier: BSD-2-Clause
// Where the entries of a send queue are, and when the queue is full.
#include "verbena/requester/send_queue.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace verbena::requester {
namespace {

class SendQueueTest : public ::testing::Test {
 protected:
  SendEntry* push(std::uint64_t id) {
    EXPECT_TRUE(queue.has_memory(true));
    SendEntry& entry = queue.push();
    entry.id = id;
    return &entry;
  }
  // Completes the oldest request, and counts it as polled.
  void pop() {
    queue.pop(queue.at(queue.head()));
    freed.add_polled(1);
  }
  bool is_full() { return !queue.has_room_for(1); }

  SendQueue queue{{.capacity = 4, .max_sges = 2}};
  queue::FreedSlots freed;

 public:
  SendQueueTest() { queue.count_freed_by(&freed); }
};

TEST_F(SendQueueTest, IsFullUntilWhatIsDoneWasPolled) {
  for (std::uint64_t id = 0; id < 4; ++id) {
    ASSERT_FALSE(is_full());
    push(id);
  }
  ASSERT_TRUE(is_full());
  for (int i = 0; i < 4; ++i) queue.pop(queue.at(queue.head()));
  EXPECT_TRUE(queue.is_empty());
  EXPECT_TRUE(is_full()) << "nobody has polled";
  freed.add_polled(3);  // one completion that stands for three requests
  EXPECT_TRUE(queue.has_room_for(3));
  EXPECT_FALSE(queue.has_room_for(4));
  push(4);
  EXPECT_TRUE(queue.has_room_for(2));
  EXPECT_FALSE(queue.has_room_for(3));
  freed.add_polled(1);
  EXPECT_TRUE(queue.has_room_for(3));
}

TEST_F(SendQueueTest, IsEmptyWhenCleared) {
  freed.add_polled(100);  // by an earlier owner of the account
  queue.count_freed_by(&freed);
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t id = 0; id < 4; ++id) push(id);
    ASSERT_TRUE(is_full());
    queue.pop(queue.at(queue.head()));
    queue.clear();
    EXPECT_TRUE(queue.has_room_for(4));
    EXPECT_FALSE(queue.has_room_for(5));
  }
}

TEST(SendQueueOfTheDevice, RequestsOfItsOwnTakeNoSlots) {
  queue::FreedSlots freed;
  SendQueue queue({.capacity = 2, .max_sges = 1, .reserved = 2});
  queue.count_freed_by(&freed);
  ASSERT_TRUE(queue.has_memory(false));
  queue.push(true);
  queue.push();
  EXPECT_TRUE(queue.has_room_for(1));
  queue.pop(queue.at(queue.head()));
  queue.push();
  EXPECT_FALSE(queue.has_room_for(1));
  queue.pop(queue.at(queue.head()));
  queue.pop(queue.at(queue.head()));
  freed.add_polled(2);
  EXPECT_TRUE(queue.has_room_for(2));
  EXPECT_FALSE(queue.has_room_for(3));
}

TEST_F(SendQueueTest, EntriesOfAFullRingAreApart) {
  for (std::uint64_t id = 0; id < 3; ++id) push(id);
  for (std::uint64_t id = 3; id < 20; ++id) {
    push(id);
    ASSERT_TRUE(is_full());
    std::uint64_t expected = id - 3;
    for (std::uint32_t position = queue.head(); position != queue.tail(); ++position) {
      ASSERT_EQ(queue.at(position).id, expected++);
    }
    pop();
  }
}

TEST_F(SendQueueTest, AnEmptyOneBeginsAtItsFirstEntryAgain) {
  const SendEntry* const first = push(1);
  const SendEntry* const second = push(2);
  pop();
  pop();
  EXPECT_EQ(push(3), first);
  EXPECT_EQ(queue.at(queue.head()).id, 3u);
  EXPECT_EQ(push(4), second);
  pop();
  EXPECT_EQ(queue.at(queue.head()).id, 4u);
}

TEST_F(SendQueueTest, OneThatIsNeverEmptyGoesRound) {
  std::vector<const SendEntry*> places;
  push(0);
  for (std::uint64_t id = 1; id <= 8; ++id) {
    places.push_back(push(id));
    pop();
  }
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(places[i], places[i + 4]);
  EXPECT_NE(places[0], places[1]);
}

TEST_F(SendQueueTest, WhatFewHaveStaysWithThoseThatHaveIt) {
  for (std::uint64_t id = 0; id < 20; ++id) {
    const std::uint32_t position = queue.tail();
    push(id);
    if (id % 2 == 0) queue.make_rare(position).compare = id;
    if (!is_full()) continue;
    for (std::uint32_t p = queue.head(); p != queue.tail(); ++p) {
      if (p % 2 == 0) {
        ASSERT_EQ(queue.rare(p).compare, queue.at(p).id);
      }
    }
    pop();
  }
}

TEST_F(SendQueueTest, WhatFewHaveIsCleanForWhoHasItNext) {
  push(1);
  queue.make_rare(0) = {.compare = 7, .length = 8, .access = 9};
  pop();
  for (std::uint64_t id = 0; id < 4; ++id) push(id);
  const Rare& again = queue.make_rare(4);
  EXPECT_EQ(again.compare, 0u);
  EXPECT_EQ(again.length, 0u);
  EXPECT_EQ(again.access, 0u);
}

TEST_F(SendQueueTest, AnEntryWithOneBufferIsALine) {
  SendQueue one{{.capacity = 4, .max_sges = 1}};
  ASSERT_TRUE(one.has_memory(false));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&one.push()) % 64, 0u);
  }
}

TEST_F(SendQueueTest, PositionsGoOnWhereTheRingBeginsAnew) {
  push(1);
  pop();
  const std::uint32_t position = queue.tail();
  push(2);
  EXPECT_EQ(position, 1u);
  EXPECT_EQ(queue.at(position).id, 2u);
}

}  // namespace
}  // namespace verbena::requester
