// SPDX-License-Identifier: BSD-2-Clause
// A context's records go through shared memory: in order, bounded, and never trusted by the reader.
#include "verbena/control/journal_ring.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

namespace verbena::control {
namespace {

class JournalRingTest : public ::testing::Test {
 protected:
  JournalRingTest() { std::memset(static_cast<void*>(ring_.get()), 0, sizeof *ring_); }

  bool put(std::uint64_t id, const std::string& text) {
    JournalRecord record;
    record.kind = JournalKind::kFailure;
    record.wr_id = id;
    return ring_->put(record, text);
  }
  // Returns the number and the text of the next record; number 0: there is none.
  std::pair<std::uint64_t, std::string> take() {
    JournalRecord record;
    std::string text;
    if (!reader_.take(*ring_, record, text)) return {};
    return {record.wr_id, text};
  }

  std::unique_ptr<JournalRing> ring_{new JournalRing};
  JournalReader reader_;
};

TEST_F(JournalRingTest, RoundAndRound) {
  for (std::uint64_t i = 1; i < 5000; ++i) {
    const std::string text(i % 700, static_cast<char>('a' + i % 26));
    ASSERT_TRUE(put(i, text));
    if (i % 3 != 0) continue;
    for (std::uint64_t j = i - 2; j <= i; ++j) {
      ASSERT_EQ(take(), std::pair(j, std::string(j % 700, static_cast<char>('a' + j % 26))));
    }
    ASSERT_EQ(take().first, 0u);
  }
  EXPECT_EQ(reader_.take_lost(*ring_), 0u);
}

TEST_F(JournalRingTest, WhatFindsNoRoomIsCounted) {
  std::uint64_t kept = 0;
  while (put(kept + 1, "four")) ++kept;
  EXPECT_GT(kept, 500u);
  EXPECT_FALSE(put(0, ""));
  EXPECT_EQ(reader_.take_lost(*ring_), 2u);
  EXPECT_EQ(reader_.take_lost(*ring_), 0u);
  for (std::uint64_t i = 1; i <= kept; ++i) ASSERT_EQ(take().first, i);
  EXPECT_EQ(take().first, 0u);
  EXPECT_TRUE(put(7, "again"));
  EXPECT_EQ(take(), std::pair(std::uint64_t{7}, std::string("again")));
}

TEST_F(JournalRingTest, ATextWithoutAnAddressIsEmpty) {
  JournalRecord record;
  record.wr_id = 7;
  ASSERT_TRUE(ring_->put(record, std::string_view()));
  EXPECT_EQ(take(), std::pair(std::uint64_t{7}, std::string()));
}

TEST_F(JournalRingTest, LongTextsAreCut) {
  ASSERT_TRUE(put(1, std::string(100'000, 'x')));
  EXPECT_EQ(take().second.size(), 1024u);
}

TEST_F(JournalRingTest, OneWordWakesForMany) {
  EXPECT_TRUE(ring_->must_wake());
  EXPECT_FALSE(ring_->must_wake());
  JournalReader::quieten(*ring_);
  EXPECT_TRUE(ring_->must_wake());
  ring_->could_not_wake();
  EXPECT_TRUE(ring_->must_wake());
}

TEST_F(JournalRingTest, BelievesNeitherSide) {
  for (const int byte : {0x00, 0x01, 0x7f, 0xff}) {
    auto* const memory = reinterpret_cast<std::uint8_t*>(ring_.get());
    std::memset(memory, byte, sizeof *ring_);
    for (std::uint64_t i = 1; i < 2000; ++i) put(i, "text");
    JournalReader reader;
    JournalRecord record;
    std::string text;
    for (int i = 0; i < 2000 && reader.take(*ring_, record, text); ++i) {
      EXPECT_LE(text.size(), 65535u);
      EXPECT_EQ(record.opcode.back(), '\0');
    }
  }
}

}  // namespace
}  // namespace verbena::control
