// What a batch takes: runs as long as one segmented send carries, and none torn by its end.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "verbena/wire/datagram.hpp"

namespace verbena::wire {
namespace {

constexpr std::size_t kWithReth = 4096 + 28;  // the first packet of a WRITE
constexpr std::size_t kInside = 4096 + 12;    // the others
constexpr std::size_t kPackets = 16;          // of 64 KiB

class BatchTest : public ::testing::Test {
 protected:
  bool add(std::size_t length) {
    if (batch_.begin(length) == nullptr) return false;
    batch_.commit(length, {});
    return true;
  }
  // Of one WRITE after the other, by the number of a packet.
  bool add_of_writes(std::size_t number, std::size_t packets) {
    return add(number % packets == 0 ? kWithReth : kInside);
  }

  // As a link divides it into segmented sends.
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

// The packet with the address is longer than the others: one of them can go with it, as the shorter
// end of its send, and the rest are another one. So the packets of a message are two sends,
// wherever batches end.
TEST_F(BatchTest, EndsWhereARunEnds) {
  std::size_t number = 0;
  std::vector<std::size_t> sends;  // their packets
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
  TxBatch small(std::span<std::uint8_t>(bytes_).first(2 * (kInside + kIcrcSize)));
  for (int i = 0; i < 2; ++i) {
    ASSERT_NE(small.begin(kInside), nullptr);
    small.commit(kInside, {});
  }
  EXPECT_EQ(small.begin(1), nullptr);
}

}  // namespace
}  // namespace verbena::wire
