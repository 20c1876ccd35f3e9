// SPDX-License-Identifier: BSD-2-Clause
// Events in shared memory: each is handed out once and in order, to a reader or back to the daemon,
// whatever the two do at the same time, and whatever a program writes there.
#include "verbena/control/cm_event_page.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace verbena::control {
namespace {

class CmEventPageTest : public ::testing::Test {
 protected:
  using Sequence = CmEventWriter::Sequence;

  std::optional<Sequence> push(std::uint32_t id, std::size_t answers = 0) {
    const std::vector<std::uint8_t> event(336, static_cast<std::uint8_t>(id));
    return writer_.push(id, event, std::vector<std::uint8_t>(answers, 7));
  }
  // Returns the ID of the event that was taken; 0: there was none.
  std::uint32_t take() { return take_cm_event(*page_, false, copy_) ? copy_.id : 0; }

  std::unique_ptr<CmEventPage> page_ = std::make_unique<CmEventPage>();
  CmEventWriter writer_{*page_};
  CmEventCopy copy_;
};

TEST_F(CmEventPageTest, HandsOutInOrder) {
  EXPECT_EQ(take(), 0u);
  const auto first = push(1, 100);
  const auto second = push(2);
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(writer_.is_handed_out(*first));
  EXPECT_EQ(take(), 1u);
  EXPECT_EQ(copy_.event().size(), 336u);
  EXPECT_EQ(copy_.event()[335], 1u);
  EXPECT_EQ(copy_.answers().size(), 100u);
  EXPECT_EQ(copy_.answers()[99], 7u);
  EXPECT_TRUE(writer_.is_handed_out(*first));
  EXPECT_FALSE(writer_.is_handed_out(*second));
  EXPECT_EQ(take(), 2u);
  EXPECT_TRUE(copy_.answers().empty());
  EXPECT_EQ(take(), 0u);
}

TEST_F(CmEventPageTest, TakesSoManyAndGoesOnWhenSomeAreRead) {
  for (std::uint32_t round = 0; round < 3; ++round) {
    for (std::uint32_t i = 1; i <= kCmTickets; ++i) {
      ASSERT_TRUE(writer_.has_room());
      ASSERT_TRUE(push(i));
    }
    EXPECT_FALSE(writer_.has_room());
    EXPECT_FALSE(push(99));
    EXPECT_EQ(take(), 1u);
    EXPECT_TRUE(writer_.has_room());
    ASSERT_TRUE(push(kCmTickets + 1));
    for (std::uint32_t i = 2; i <= kCmTickets + 1; ++i) EXPECT_EQ(take(), i);
    EXPECT_EQ(take(), 0u);
  }
}

TEST_F(CmEventPageTest, WhatIsTakenBackIsNotHandedOut) {
  push(1);
  const auto second = push(2);
  const auto third = push(3);
  EXPECT_TRUE(writer_.take_back(*second));
  EXPECT_FALSE(writer_.take_back(*second));
  EXPECT_EQ(take(), 1u);
  EXPECT_EQ(take(), 3u);
  EXPECT_FALSE(writer_.take_back(*third));
  EXPECT_EQ(take(), 0u);
  ASSERT_TRUE(push(4));
  EXPECT_EQ(take(), 4u);
}

TEST_F(CmEventPageTest, AnAnnouncedOneIsForWhoHoldsTheMessage) {
  push(1);
  const auto second = push(2);
  EXPECT_TRUE(writer_.announce(*second));
  EXPECT_FALSE(take_cm_event(*page_, true, copy_));
  EXPECT_EQ(take(), 1u);
  EXPECT_EQ(take(), 0u);
  EXPECT_FALSE(writer_.is_handed_out(*second));
  EXPECT_TRUE(take_cm_event(*page_, true, copy_));
  EXPECT_EQ(copy_.id, 2u);
  EXPECT_FALSE(writer_.announce(*second));
  const auto third = push(3);
  EXPECT_TRUE(writer_.announce(*third));
  EXPECT_TRUE(writer_.take_back(*third));
  EXPECT_FALSE(take_cm_event(*page_, true, copy_));
}

TEST_F(CmEventPageTest, AnswersAreOutdatedOnceByWhoGoesByThem) {
  push(1, 10);
  EXPECT_EQ(take(), 1u);
  EXPECT_TRUE(outdate_answers(*page_, 1, copy_.version));
  EXPECT_NE(copy_.version, version_of(*page_, 1));
  EXPECT_FALSE(outdate_answers(*page_, 1, copy_.version));
}

TEST_F(CmEventPageTest, AnswersAreTrueUntilTheirIdChanges) {
  writer_.outdate_answers(2);
  push(1, 10);
  push(2, 10);
  EXPECT_EQ(take(), 1u);
  const std::uint32_t first = copy_.version;
  EXPECT_EQ(take(), 2u);
  EXPECT_EQ(copy_.version, version_of(*page_, 2));
  writer_.outdate_answers(2);
  EXPECT_NE(copy_.version, version_of(*page_, 2));
  EXPECT_EQ(first, version_of(*page_, 1));
}

TEST_F(CmEventPageTest, WhatDoesNotFitComesWithoutAnswersOrNotAtAll) {
  ASSERT_TRUE(push(1, kCmPlaceBytes));
  EXPECT_EQ(take(), 1u);
  EXPECT_TRUE(copy_.answers().empty());
  EXPECT_FALSE(writer_.push(2, std::vector<std::uint8_t>(kCmPlaceBytes + 1), {}));
}

// A channel that is read in time costs one page of memory.
TEST_F(CmEventPageTest, ReadInTimeOnePlaceIsEnough) {
  for (std::uint32_t i = 1; i < 100; ++i) {
    push(i);
    EXPECT_EQ(take(), i);
  }
  for (std::size_t place = 1; place < kCmTickets; ++place) EXPECT_EQ(page_->places[place].id, 0u);
}

// A reader has died while it copied: its ticket says "taken" for ever.
TEST_F(CmEventPageTest, AReaderThatDiedKeepsItsPlaceOnly) {
  const auto first = push(1);
  page_->tickets[*first % kCmTickets].fetch_add(1);  // ready becomes taken
  EXPECT_TRUE(writer_.is_handed_out(*first));
  EXPECT_FALSE(writer_.take_back(*first));
  std::uint32_t pushed = 1;
  for (std::uint32_t id = 2; push(id); ++id, ++pushed) EXPECT_EQ(take(), id);
  EXPECT_EQ(pushed, kCmTickets);
}

TEST_F(CmEventPageTest, ManyReadersAndTheDaemonShareThemOut) {
  constexpr std::uint32_t kEvents = 20000;
  std::atomic<bool> done{false};
  std::array<std::vector<std::uint32_t>, 3> taken;
  std::vector<std::thread> readers;
  for (auto& mine : taken) {
    readers.emplace_back([this, &mine, &done] {
      CmEventCopy copy;
      for (;;) {
        const bool last = done.load();
        while (take_cm_event(*page_, false, copy) || take_cm_event(*page_, true, copy)) {
          for (const std::uint8_t byte : copy.event()) {
            if (byte != static_cast<std::uint8_t>(copy.id)) std::abort();
          }
          mine.push_back(copy.id);
        }
        if (last) return;
      }
    });
  }
  std::set<std::uint32_t> back;
  for (std::uint32_t id = 1; id <= kEvents; ++id) {
    std::optional<Sequence> sequence;
    while (!(sequence = push(id))) std::this_thread::yield();
    if (id % 3 == 0) writer_.announce(*sequence);
    if (id % 5 == 0 && writer_.take_back(*sequence)) back.insert(id);
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  std::set<std::uint32_t> all = back;
  for (const auto& mine : taken) {
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    for (const std::uint32_t id : mine) EXPECT_TRUE(all.insert(id).second) << id;
  }
  EXPECT_EQ(all.size(), kEvents);
}

TEST_F(CmEventPageTest, NonsenseInTheMemoryHurtsNobody) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    auto* words = reinterpret_cast<std::uint32_t*>(page_.get());
    const std::size_t near = (2 + 2 * kCmTickets + 4);  // the tickets and the head of a place
    for (int i = 0; i < 8; ++i) words[random() % near] = static_cast<std::uint32_t>(random() % 5);
    if (const auto sequence = push(1, random() % 2000)) {
      writer_.outdate_answers(static_cast<std::uint32_t>(random()));
      if (random() % 2 == 0) writer_.take_back(*sequence);
    }
    for (std::size_t i = 0; i < 2 * kCmTickets && take() != 0; ++i) {
      ASSERT_LE(copy_.event_size + copy_.answers_size, kCmPlaceBytes);
    }
  }
}

}  // namespace
}  // namespace verbena::control
