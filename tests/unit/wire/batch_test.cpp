// SPDX-License-Identifier: BSD-2-Clause
// What a batch holds: runs as long as one segmented send carries, none cut by the batch's end.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "verbena/wire/datagram.hpp"

namespace verbena::wire {
namespace {

constexpr std::size_t kWithReth = 4096 + 28;  // the first packet of a WRITE
constexpr std::size_t kInside = 4096 + 12;    // the others
constexpr std::size_t kPackets = 16;          // a message of 64 KiB

class BatchTest : public ::testing::Test {
 protected:
  bool add(std::size_t length) {
    if (batch_.begin(length) == nullptr) return false;
    batch_.commit(length, {});
    return true;
  }
  // Adds packet `number` of a sequence of WRITEs with `packets` packets each.
  bool add_of_writes(std::size_t number, std::size_t packets) {
    return add(number % packets == 0 ? kWithReth : kInside);
  }

  // Divides the batch into segmented sends as a link does.
  std::vector<std::size_t> runs() const {
    std::vector<std::size_t> counts;
    std::size_t step = 0;
    std::size_t bytes = 0;
    bool ended = true;
    for (const TxBatch::Packet& p : batch_.packets()) {
      const std::size_t sealed = p.length + kIcrcSize;
      if (ended || sealed > step || bytes + sealed > TxBatch::kRunBytes) {
        counts.push_back(0);
        step = sealed;
        bytes = 0;
      }
      ++counts.back();
      bytes += sealed;
      ended = sealed < step;
    }
    return counts;
  }

  std::array<std::uint8_t, TxBatch::kUsualBytes> bytes_;
  TxBatch batch_{bytes_};
};

// The first packet has the address and is longer than the others. One other packet goes in its
// send, as the shorter end, and the rest are another send. Therefore the packets of a message are
// two sends, wherever batches end.
TEST_F(BatchTest, EndsWhereARunEnds) {
  std::size_t number = 0;
  std::vector<std::size_t> sends;  // packets in each send
  for (int batches = 0; batches < 8; ++batches) {
    batch_.clear();
    while (add_of_writes(number, kPackets)) ++number;
    for (const std::size_t run : runs()) sends.push_back(run);
  }
  ASSERT_GT(number, 8 * kPackets);
  for (std::size_t i = 0; i + 1 < sends.size(); i += 2) {
    EXPECT_EQ(sends[i], 2u) << "send " << i;
    EXPECT_EQ(sends[i + 1], kPackets - 2) << "send " << i + 1;
  }
}

TEST_F(BatchTest, HoldsTwoFullRunsOfALongMessage) {
  std::size_t count = 0;
  while (add(kInside)) ++count;
  EXPECT_EQ(count, 2 * (TxBatch::kRunBytes / (kInside + kIcrcSize)));
}

TEST_F(BatchTest, AsOneRunIsFullWithIt) {
  batch_.be_one_run();
  std::size_t count = 0;
  while (add_of_writes(count, kPackets)) {
    batch_.be_one_run();
    ++count;
  }
  EXPECT_EQ(count, 15u);
  EXPECT_LE(batch_.bytes(), TxBatch::kRunBytes);
  batch_.clear();
  count = 0;
  while (add(kInside)) ++count;
  EXPECT_EQ(count, 30u);
}

TEST_F(BatchTest, TakesAsManySmallPacketsAsThereAreEntries) {
  for (std::size_t i = 0; i < TxBatch::kMaxPackets; ++i) {
    ASSERT_TRUE(add(i % 2 == 0 ? 16 : 40)) << i;
  }
  EXPECT_FALSE(add(16));
}

TEST_F(BatchTest, AShorterPacketEndsARunAndTheSecondHalfBeginsNone) {
  while (batch_.bytes() <= bytes_.size() / 2) ASSERT_TRUE(add(kInside));
  ASSERT_TRUE(add(100));
  EXPECT_FALSE(add(100));
}

TEST_F(BatchTest, ASmallBufferTakesWhatFits) {
  TxBatch small(
      std::span<std::uint8_t>(bytes_).first(2 * (kInside + kIcrcSize) + TxBatch::kRoomBehind));
  for (int i = 0; i < 2; ++i) {
    ASSERT_NE(small.begin(kInside), nullptr);
    small.commit(kInside, {});
  }
  EXPECT_EQ(small.begin(1), nullptr);
}

// A payload that is outside of the batch, and must look the same to every reader.
class BorrowedTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kHead = 28;
  static constexpr std::size_t kLength = 601;
  static constexpr std::size_t kPad = 3;
  static constexpr std::size_t kSize = kHead + kLength + kPad;

  BorrowedTest() {
    for (std::size_t i = 0; i < kSize; ++i) whole_[i] = static_cast<std::uint8_t>(i * 5 + 1);
    std::copy_n(whole_.begin() + kHead, kLength, payload_.begin());
    std::uint8_t* at = batch_.begin(kSize);
    std::copy_n(whole_.begin(), kHead, at);
    std::copy_n(whole_.begin() + kHead + kLength, kPad, at + kHead + kLength);
    batch_.commit(kSize, {});
    batch_.borrow(kHead, payload_.data(), kLength);
  }
  const TxBatch::Packet& packet() const { return batch_.packets().front(); }
  bool is_whole(std::span<const std::uint8_t> bytes) const {
    return std::equal(bytes.begin(), bytes.end(), whole_.begin(), whole_.end());
  }

  std::array<std::uint8_t, kSize> whole_;
  std::array<std::uint8_t, kLength> payload_;
  std::array<std::uint8_t, TxBatch::kUsualBytes> bytes_{};
  TxBatch batch_{bytes_};
};

TEST_F(BorrowedTest, IsCopiedFromWhereItIs) {
  EXPECT_EQ(batch_.start_of(packet()).size(), kHead);
  const std::size_t ends[] = {0,
                              1,
                              kHead - 1,
                              kHead,
                              kHead + 1,
                              300,
                              kHead + kLength - 1,
                              kHead + kLength,
                              kHead + kLength + 1,
                              kSize};
  for (const std::size_t begin : ends) {
    for (const std::size_t end : ends) {
      if (end < begin) continue;
      std::array<std::uint8_t, kSize> copy{};
      batch_.copy(packet(), begin, end, copy.data());
      EXPECT_TRUE(std::equal(copy.data(), copy.data() + (end - begin), whole_.data() + begin))
          << begin << ' ' << end;
    }
  }
  EXPECT_NE(packet().borrowed, nullptr);
}

TEST_F(BorrowedTest, IsBroughtInOnceByWhoeverLooks) {
  EXPECT_TRUE(is_whole(batch_.bytes_of(packet())));
  payload_.fill(0);
  EXPECT_TRUE(is_whole(batch_.sealed_bytes(packet()).first(kSize)));
  EXPECT_TRUE(is_whole(batch_.start_of(packet())));
  EXPECT_EQ(packet().borrowed, nullptr);
}

TEST_F(BorrowedTest, IsHeldUntilTheBatchIsCleared) {
  Gate one, other;
  for (Gate* gate : {&one, &other}) {
    gate->reopen();
    EXPECT_TRUE(gate->enter());
    batch_.hold(*gate);
  }
  batch_.clear();
  one.close_and_wait();
  other.close_and_wait();
  EXPECT_TRUE(batch_.empty());
}

TEST_F(BorrowedTest, IsHeldNoLongerWhenAllIsBroughtIn) {
  Gate gate;
  gate.reopen();
  EXPECT_TRUE(gate.enter());
  batch_.hold(gate);
  batch_.bring_in_all();
  gate.close_and_wait();
  payload_.fill(0);
  EXPECT_TRUE(is_whole(batch_.bytes_of(packet())));
}

// A piece has at most half of a message, so that the reader takes one while the next is written.
TEST(Packing, PiecesGrowWithTheirMessage) {
  Path::Packing packing;
  EXPECT_EQ(packing.merged_most_of(1u << 20), 0u);
  packing.merged_most = kMergedMost;
  EXPECT_EQ(packing.merged_most_of(5'000), 8192u);
  EXPECT_EQ(packing.merged_most_of(16u << 10), 8192u);
  EXPECT_EQ(packing.merged_most_of(40'000), 16384u);
  EXPECT_EQ(packing.merged_most_of(64u << 10), 32768u);
  EXPECT_EQ(packing.merged_most_of(1u << 31), 32768u);
  packing.merged_most = 1000;
  EXPECT_EQ(packing.merged_most_of(1u << 20), 1000u);
}

}  // namespace
}  // namespace verbena::wire
