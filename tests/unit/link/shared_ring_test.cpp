// SPDX-License-Identifier: BSD-2-Clause
// One ring between two contexts: whole packets in order, whichever side is slower. Neither garbage
// nor a lying peer can do more than end the ring.
#include "verbena/link/shared_ring.hpp"

#include <sys/wait.h>

#include <thread>

#include "ring_fixture.hpp"
#include "verbena/link/clock.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::link::test {
namespace {

constexpr TimeNs kPatienceNs = 20'000'000'000;

// Reads packets 0 .. count-1, waiting for each.
void read_all(RingReader& reader, std::uint32_t count) {
  const TimeNs end = monotonic_now_ns() + kPatienceNs;
  for (std::uint32_t n = 0; n < count; ++n) {
    while (!reader.has_packet()) {
      ASSERT_LT(monotonic_now_ns(), end) << "packet " << n << " did not come";
      std::this_thread::yield();
    }
    ASSERT_TRUE(takes_numbered(reader, n));
  }
}

void write_all(RingWriter& writer, std::uint32_t count) {
  const TimeNs end = monotonic_now_ns() + kPatienceNs;
  for (std::uint32_t n = 0; n < count; ++n) {
    while (!put_numbered(writer, n)) {
      ASSERT_LT(monotonic_now_ns(), end) << "no room for packet " << n;
      std::this_thread::yield();
    }
  }
}

class AnyRing : public ::testing::TestWithParam<std::uint64_t> {};

// Packets of all lengths in bursts of all lengths, up to a full ring.
TEST_P(AnyRing, LosesNothing) {
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

INSTANTIATE_TEST_SUITE_P(Seeds, AnyRing, ::testing::Range<std::uint64_t>(0, 20));

TEST(SharedRing, CarriesTheLongestJointPacketsAndNoLongerOnes) {
  const RingFile file(SharedRing::kDefaultCapacity);
  RingWriter writer(file.map());
  RingReader reader(file.map());
  wire::RxDatagram fields;
  for (std::uint32_t n = 0; n < 200; ++n) {
    const Bytes packet = make_packet(Qpn(1), n, wire::kMaxMerged - n % 7);
    Batch batch(2 * wire::kMaxMerged);
    batch.add(packet, to(own_address()));
    Bytes borrowed;
    if (n % 2 == 0) borrow(batch.get(), 28, packet.size() - 28, borrowed);
    ASSERT_EQ(writer.put(batch.get(), 0, 1), 1u) << n;
    ASSERT_TRUE(reader.take(fields)) << n;
    ASSERT_TRUE(std::ranges::equal(fields.bytes, packet)) << n;
  }
  Batch longer(2 * wire::kMaxMerged);
  longer.add(make_packet(Qpn(1), 0, wire::kMaxMerged + 1), to(own_address()));
  EXPECT_EQ(writer.put(longer.get(), 0, 1), 0u);
  EXPECT_FALSE(reader.take(fields));
}

TEST(SharedRing, IsFullWhenItIsFullAndGoesOnAfter) {
  const RingFile file;
  RingWriter writer(file.map());
  RingReader reader(file.map());
  std::uint32_t put = 0;
  std::uint32_t taken = 0;
  for (int round = 0; round < 50; ++round) {
    while (put_numbered(writer, put)) ++put;
    EXPECT_GT(put, taken + 10);
    while (taken < put) ASSERT_TRUE(takes_numbered(reader, taken++));
    EXPECT_FALSE(reader.has_packet());
  }
}

TEST(SharedRing, JoinsTwoThreads) {
  const RingFile file;
  RingWriter writer(file.map());
  RingReader reader(file.map());
  std::thread other([&] { write_all(writer, 5000); });
  read_all(reader, 5000);
  other.join();
}

TEST(SharedRing, JoinsTwoProcesses) {
  const RingFile file;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    RingWriter writer(file.map());
    write_all(writer, 5000);
    ::_exit(0);
  }
  RingReader reader(file.map());
  read_all(reader, 5000);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(SharedRing, ASleeperIsWokenOncePerSleep) {
  const RingFile file;
  RingWriter writer(file.map());
  RingReader reader(file.map());
  put_numbered(writer, 0);
  EXPECT_FALSE(writer.should_wake_reader());
  reader.begin_sleep();
  EXPECT_TRUE(reader.has_packet());  // therefore the reader does not sleep
  reader.end_sleep();
  ASSERT_TRUE(takes_numbered(reader, 0));
  for (std::uint32_t n = 1; n < 4; ++n) {
    reader.begin_sleep();
    EXPECT_FALSE(reader.has_packet());
    put_numbered(writer, 2 * n);
    EXPECT_TRUE(writer.should_wake_reader());
    put_numbered(writer, 2 * n + 1);
    EXPECT_FALSE(writer.should_wake_reader());
    reader.end_sleep();
    EXPECT_FALSE(writer.should_wake_reader());
    ASSERT_TRUE(takes_numbered(reader, 2 * n));
    ASSERT_TRUE(takes_numbered(reader, 2 * n + 1));
  }
}

TEST(SharedRing, MapsOnlyWhatNobodyCanShrink) {
  EXPECT_FALSE(SharedRing::create(1000).ok());
  EXPECT_FALSE(SharedRing::create(32 * 1024).ok());
  const int plain = ::memfd_create("not a ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(::ftruncate(plain, 4096 + kSmall), 0);
  EXPECT_FALSE(SharedRing::map(plain).ok());
  ::close(plain);
  EXPECT_FALSE(SharedRing::map(-1).ok());
  const RingFile file;
  EXPECT_NE(::ftruncate(file.fd, 0), 0);
}

TEST(SharedRing, IsClosedForBothSides) {
  const RingFile file;
  const RingWriter writer(file.map());
  RingReader reader(file.map());
  SharedRing emulators = file.map();
  EXPECT_FALSE(writer.is_closed());
  emulators.close();
  EXPECT_TRUE(writer.is_closed());
  EXPECT_TRUE(reader.is_closed());
  EXPECT_FALSE(reader.is_broken());
}

TEST(SharedRing, GarbageIsNoPacket) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const RingFile file;
    RingWriter writer(file.map());
    RingReader reader(file.map());
    RawMemory raw(file.fd);
    for (std::uint32_t n = 0; n < seed; ++n) {
      ASSERT_TRUE(put_numbered(writer, n) && takes_numbered(reader, n));
    }
    Random random(seed);
    for (std::size_t i = 0; i < RawMemory::kRecordsAt + kSmall; i += 8) {
      const std::uint64_t word = random.next();
      std::memcpy(raw.at(i), &word, sizeof word);
    }
    wire::RxDatagram fields;
    for (int i = 0; i < 10; ++i) EXPECT_FALSE(reader.take(fields));
  }
}

// The reader uses a long packet in place. The writer gets the place after it was given back.
TEST(SharedRing, ATakenPacketStaysUntilItIsGivenBack) {
  constexpr std::size_t kLong = 4108;
  const RingFile file;
  RingWriter writer(file.map());
  RingReader reader(file.map());
  const auto put = [&](std::uint32_t n) {
    Batch batch(8192);
    batch.add(make_packet(Qpn(1), n, kLong), to(own_address()));
    return writer.put(batch.get(), 0, 1) == 1;
  };
  std::uint32_t put_count = 0;
  while (put(put_count)) ++put_count;
  wire::RxDatagram fields;
  for (std::uint32_t n = 0; n < 3 * put_count; ++n) {
    ASSERT_TRUE(reader.take(fields));
    EXPECT_FALSE(put(put_count + n));
    EXPECT_TRUE(std::ranges::equal(fields.bytes, make_packet(Qpn(1), n, kLong))) << n;
    reader.release();
    ASSERT_TRUE(put(put_count + n));
  }
}

// A peer can change the payload in the ring, but not what was decided by the packet's headers.
TEST(SharedRing, HeadersAreThoseThatCame) {
  for (const std::size_t length : {12u, 64u, 256u, 260u, 1036u, 4108u}) {
    const RingFile file;
    RingWriter writer(file.map());
    RingReader reader(file.map());
    RawMemory raw(file.fd);
    Batch batch(8192);
    batch.add(make_packet(Qpn(0x123456), 77, length), to(own_address()));
    ASSERT_EQ(writer.put(batch.get(), 0, 1), 1u);
    wire::RxDatagram datagram;
    ASSERT_TRUE(reader.take(datagram) && datagram.bytes.size() == length);
    std::memset(raw.at(RawMemory::kRecordsAt), 0xff, kSmall);
    wire::PacketView packet;
    ASSERT_FALSE(wire::parse_packet(datagram, packet)) << length;
    EXPECT_EQ(packet.bth.dest_qp, Qpn(0x123456)) << length;
    EXPECT_EQ(packet.bth.psn.value(), 77u) << length;
    EXPECT_EQ(packet.size(), length);
  }
}

TEST(SharedRing, ALengthThatCannotBeEndsTheRing) {
  for (const int wrong : {0, 11, static_cast<int>(wire::kMaxMerged + 1), 0xfffe, 0xffff}) {
    const auto length = static_cast<std::uint16_t>(wrong);
    const RingFile file;
    RingWriter writer(file.map());
    RingReader reader(file.map());
    RawMemory raw(file.fd);
    ASSERT_TRUE(put_numbered(writer, 0));
    std::memcpy(raw.at(RawMemory::kRecordsAt), &length, sizeof length);
    wire::RxDatagram fields;
    EXPECT_FALSE(reader.take(fields)) << length;
    EXPECT_TRUE(reader.is_broken()) << length;
    EXPECT_TRUE(writer.is_closed()) << length;
    EXPECT_FALSE(reader.take(fields));
  }
}

TEST(SharedRing, ARecordBeyondTheEndEndsTheRing) {
  const RingFile file;
  RingWriter writer(file.map());
  RingReader reader(file.map());
  RawMemory raw(file.fd);
  // The records have 4160 bytes, until 3136 bytes are left. Then comes a short one with a false
  // length.
  Batch large(80'000);
  for (std::uint32_t n = 0; n < 15; ++n) large.add(make_packet(Qpn(1), n, 4144), to(own_address()));
  ASSERT_EQ(writer.put(large.get(), 0, 15), 15u);
  wire::RxDatagram fields;
  for (int n = 0; n < 15; ++n) ASSERT_TRUE(reader.take(fields));
  Batch last(8192);
  last.add(make_packet(Qpn(1), 15, 100), to(own_address()));
  ASSERT_EQ(writer.put(last.get(), 0, 1), 1u);
  const std::uint16_t length = 4000;
  std::memcpy(raw.at(RawMemory::kRecordsAt + 15 * 4160), &length, sizeof length);
  EXPECT_FALSE(reader.take(fields));
  EXPECT_TRUE(reader.is_broken());
}

TEST(SharedRing, AReaderThatLiesAboutItsPlaceEndsTheRing) {
  for (const std::uint64_t tail : {~std::uint64_t{0}, std::uint64_t{1} << 40}) {
    const RingFile file;
    RingWriter writer(file.map());
    RawMemory raw(file.fd);
    std::memcpy(raw.at(RawMemory::kTailAt), &tail, sizeof tail);
    std::uint32_t put = 0;
    while (put < 10'000 && put_numbered(writer, put)) ++put;
    EXPECT_LT(put, 10'000u);
    EXPECT_TRUE(writer.is_closed());
  }
}

}  // namespace
}  // namespace verbena::link::test
