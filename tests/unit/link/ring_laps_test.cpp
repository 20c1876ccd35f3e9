// SPDX-License-Identifier: BSD-2-Clause
// How much of a ring is used: its first pages for a reader who keeps up, all of it for one who does
// not, whenever he falls behind; and that every packet is found wherever it went.
#include <sys/stat.h>

#include "ring_fixture.hpp"

namespace verbena::link::test {
namespace {

constexpr std::size_t kLarge = 1024 * 1024;
constexpr std::size_t kPacket = 4108;  // and its record
constexpr std::size_t kRecord = 4160;

std::size_t bytes_in_use(const RingFile& file) {
  struct stat status {};
  EXPECT_EQ(::fstat(file.fd, &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

struct Ends {
  explicit Ends(std::size_t capacity) : file(capacity), writer(file.map()), reader(file.map()) {}

  bool put(std::size_t length = kPacket) {
    Batch batch(8192);
    batch.add(make_packet(Qpn(1), put_count, length), to(own_address(), false));
    if (writer.put(batch.get(), 0, 1) != 1) return false;
    ++put_count;
    return true;
  }
  // Whether the next one is there and the right one.
  bool take() {
    wire::RxDatagram fields;
    const bool is_next =
        reader.take(fields) && wire::BthView(fields.bytes.data()).psn().value() == taken_count++;
    reader.release();
    return is_next;
  }

  RingFile file;
  RingWriter writer;
  RingReader reader;
  std::uint32_t put_count = 0;
  std::uint32_t taken_count = 0;
};

TEST(RingLaps, AreShortForAReaderWhoKeepsUp) {
  Ends ends(kLarge);
  for (int i = 0; i < 3000; ++i) {
    ASSERT_TRUE(ends.put());
    if (i % 3 == 2) {
      for (int n = 0; n < 3; ++n) ASSERT_TRUE(ends.take());
    }
  }
  EXPECT_LE(bytes_in_use(ends.file), kLarge / 4);
}

TEST(RingLaps, AreLongForOneWhoDoesNot) {
  Ends ends(kLarge);
  for (int i = 0; i < 60; ++i) ASSERT_TRUE(ends.put());
  for (int i = 0; i < 3000; ++i) ASSERT_TRUE(ends.put() && ends.take());
  EXPECT_GE(bytes_in_use(ends.file), kLarge / 2);
}

// In every place, and so before, in and after a lap that is cut short.
TEST(RingLaps, LeaveRoomForAllThatTheRingHolds) {
  for (int kept_up = 0; kept_up < 80; ++kept_up) {
    Ends ends(kLarge);
    for (int i = 0; i < kept_up; ++i) ASSERT_TRUE(ends.put() && ends.take());
    std::size_t burst = 0;
    while (ends.put()) ++burst;
    // The ends of both pieces may be too short for a record.
    EXPECT_GE(burst, kLarge / kRecord - 3) << kept_up;
    EXPECT_FALSE(ends.writer.is_half_empty());
    for (std::size_t i = 0; i < burst; ++i) ASSERT_TRUE(ends.take()) << kept_up << ' ' << i;
    EXPECT_FALSE(ends.reader.has_packet());
    EXPECT_TRUE(ends.writer.is_half_empty());
    while (ends.put()) {
    }
    while (ends.reader.has_packet()) ASSERT_TRUE(ends.take());
    EXPECT_EQ(ends.taken_count, ends.put_count);
    EXPECT_FALSE(ends.reader.is_broken());
  }
}

// Records that end right where the ring does: what follows them is not free for that.
TEST(RingLaps, EndWhereTheRingEnds) {
  for (std::size_t lines = 1; lines <= kRecord / 64; ++lines) {
    Ends ends(kLarge);
    for (int i = 0; i < 30; ++i) ASSERT_TRUE(ends.put() && ends.take());
    for (std::size_t i = 0; i < lines; ++i) ASSERT_TRUE(ends.put(32));
    while (ends.put()) {
    }
    while (ends.reader.has_packet()) ASSERT_TRUE(ends.take());
    EXPECT_EQ(ends.taken_count, ends.put_count) << lines;
  }
}

// What a writer skipped is not taken for what is not read yet.
TEST(RingLaps, AreHalfEmptyWhereLittleIsUnread) {
  for (int kept_up = 0; kept_up < 80; ++kept_up) {
    Ends ends(kLarge);
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(ends.put());
    for (int i = 0; i < kept_up; ++i) {
      ASSERT_TRUE(ends.put() && ends.take());
      EXPECT_TRUE(ends.writer.is_half_empty()) << i;
    }
    for (std::size_t unread = 5; (unread + 1) * kRecord < kLarge / 2; ++unread) {
      ASSERT_TRUE(ends.put());
      EXPECT_TRUE(ends.writer.is_half_empty()) << kept_up << ' ' << unread;
    }
    ASSERT_TRUE(ends.put() && ends.put());
    EXPECT_FALSE(ends.writer.is_half_empty());
  }
}

class AnyLaps : public ::testing::TestWithParam<std::uint64_t> {};

// Packets of all lengths, in bursts of all lengths, up to a full ring.
TEST_P(AnyLaps, LoseNothing) {
  Random random(GetParam());
  const RingFile file(kSmall << (GetParam() % 5));
  RingWriter writer(file.map());
  RingReader reader(file.map());
  std::uint32_t put = 0;
  std::uint32_t taken = 0;
  const std::uint64_t calm = 1 + random.below(30);
  while (taken < 20'000) {
    const std::uint64_t most = random.below(calm) == 0 ? 2000 : 10;
    for (std::uint64_t n = random.below(most); n > 0 && put_numbered(writer, put); --n) ++put;
    for (std::uint64_t n = random.below(2 * most); n > 0 && taken < put; --n) {
      ASSERT_TRUE(takes_numbered(reader, taken++));
    }
    ASSERT_EQ(reader.has_packet(), taken < put);
  }
  EXPECT_FALSE(reader.is_closed());
}

INSTANTIATE_TEST_SUITE_P(Seeds, AnyLaps, ::testing::Range<std::uint64_t>(0, 20));

// Backwards, nowhere, between two lines, past the beginning, to another jump.
TEST(RingLaps, AJumpThatCannotBeEndsTheRing) {
  constexpr std::uint64_t kToEnd = kSmall - kRecord;
  for (const std::uint64_t distance :
       {std::uint64_t{0}, std::uint64_t{32}, kToEnd + 64, ~std::uint64_t{63}, std::uint64_t{64}}) {
    Ends ends(kSmall);
    RawMemory raw(ends.file.fd);
    ASSERT_TRUE(ends.put() && ends.take());
    ASSERT_TRUE(ends.put(32) && ends.put(32));
    for (const std::size_t at : {kRecord, kRecord + 64}) {
      const std::uint16_t jump = 0xffff;
      std::memcpy(raw.at(RawMemory::kRecordsAt + at), &jump, sizeof jump);
      std::memcpy(raw.at(RawMemory::kRecordsAt + at + 8), &distance, sizeof distance);
    }
    wire::RxDatagram fields;
    EXPECT_FALSE(ends.reader.take(fields)) << distance;
    EXPECT_TRUE(ends.reader.is_broken()) << distance;
    EXPECT_TRUE(ends.writer.is_closed()) << distance;
  }
}

}  // namespace
}  // namespace verbena::link::test
