// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/link/capture_ring.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstring>
#include <numeric>

#include "capture_fixture.hpp"

namespace verbena::link::test {
namespace {

// Returns a packet whose bytes and length depend on its number.
std::vector<std::uint8_t> packet_of(std::uint64_t number) {
  std::vector<std::uint8_t> packet(12 + number * 37 % 4000);
  std::iota(packet.begin(), packet.end(), static_cast<std::uint8_t>(number));
  return packet;
}

void put(CaptureWriter& writer, std::uint64_t number) {
  const auto packet = packet_of(number);
  CaptureRecord record;
  record.time = number;
  record.length = record.kept = static_cast<std::uint32_t>(packet.size());
  writer.begin();
  writer.put(record, packet.data());
  writer.end();
}

TEST(CaptureRing, GivesBackWhatWasPutRoundAfterRound) {
  CaptureEnds ends;
  CaptureWriter writer(std::move(ends.writer_end));
  std::uint64_t written = 0;
  std::uint64_t read = 0;
  for (int turn = 0; turn < 200; ++turn) {
    for (int i = 0; i < 7; ++i) put(writer, written++);
    for (const auto& taken : ends.take_all()) {
      EXPECT_EQ(taken.record.time, read);
      EXPECT_EQ(taken.packet, packet_of(read));
      ++read;
    }
  }
  EXPECT_EQ(read, written);
  EXPECT_EQ(ends.reader.recorded(), written);
  EXPECT_EQ(ends.reader.dropped(), 0u);
}

// However many packets pass, a reader that keeps up has only a few pages filled.
TEST(CaptureRing, UsesAsMuchMemoryAsTheReaderIsBehind) {
  CaptureEnds ends(CaptureRing::kDefaultCapacity);
  CaptureWriter writer(std::move(ends.writer_end));
  std::uint64_t read = 0;
  for (std::uint64_t written = 0; written < 20'000;) {
    for (int i = 0; i < 7; ++i) put(writer, written++);
    for (const auto& taken : ends.take_all()) EXPECT_EQ(taken.packet, packet_of(read++));
  }
  struct stat used {};
  ASSERT_EQ(::fstat(ends.fd, &used), 0);
  EXPECT_LT(used.st_blocks * 512, 1 << 20);
  // If the reader stands still, the writer fills the whole ring.
  for (std::uint64_t i = 0; ends.reader.dropped() == 0; ++i) put(writer, read + i);
  const auto rest = ends.take_all();
  EXPECT_GT(rest.size() * 2000, CaptureRing::kDefaultCapacity * 9 / 10);
  for (const auto& taken : rest) EXPECT_EQ(taken.packet, packet_of(read++));
}

TEST(CaptureRing, CountsWhatDoesNotFitAndGoesOnWhenThereIsRoom) {
  CaptureEnds ends;
  CaptureWriter writer(std::move(ends.writer_end));
  for (std::uint64_t i = 0; i < 500; ++i) put(writer, i);
  const std::uint64_t fitted = ends.reader.recorded();
  EXPECT_GT(fitted, 10u);
  EXPECT_EQ(fitted + ends.reader.dropped(), 500u);
  EXPECT_EQ(ends.take_all().size(), fitted);
  put(writer, 500);
  const auto rest = ends.take_all();
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].packet, packet_of(500));
}

TEST(CaptureRing, SaysWhileARecordIsMade) {
  CaptureEnds ends;
  CaptureWriter writer(std::move(ends.writer_end));
  const std::uint32_t before = ends.reader.activity();
  EXPECT_EQ(before % 2, 0u);
  writer.begin();
  EXPECT_EQ(ends.reader.activity() % 2, 1u);
  writer.end();
  EXPECT_EQ(ends.reader.activity() % 2, 0u);
  EXPECT_NE(ends.reader.activity(), before);
}

TEST(CaptureRing, AWriterThatIsKilledLeavesWholeRecords) {
  CaptureEnds ends;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    CaptureWriter writer(std::move(ends.writer_end));
    for (std::uint64_t i = 0;; ++i) {
      put(writer, i);
      if (i == 1000) (void)!::write(ready[1], "x", 1);
    }
  }
  std::uint64_t read = 0;
  const auto read_all = [&] {
    for (const auto& taken : ends.take_all()) {
      ASSERT_EQ(taken.packet, packet_of(taken.record.time));
      ++read;
    }
  };
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  while (read < 2000) read_all();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  read_all();
  EXPECT_FALSE(ends.reader.is_broken());
  EXPECT_LE(ends.reader.recorded(), read + 1);
  ::close(ready[0]);
  ::close(ready[1]);
}

// Maps the whole memory, as the other side can write to it.
std::span<std::uint8_t> memory_of(const CaptureEnds& ends) {
  const std::size_t size = 4096 + CaptureEnds::kSmallest;
  void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, ends.fd, 0);
  return {static_cast<std::uint8_t*>(at), size};
}

TEST(CaptureRing, BelievesNeitherSide) {
  for (int byte : {0x00, 0x01, 0x7f, 0xff}) {
    CaptureEnds ends;
    CaptureWriter writer(std::move(ends.writer_end));
    for (std::uint64_t i = 0; i < 5; ++i) put(writer, i);
    const auto memory = memory_of(ends);
    std::memset(memory.data() + 8, byte, memory.size() - 8);
    for (std::uint64_t i = 0; i < 500; ++i) put(writer, i);
    (void)ends.take_all();
    ::munmap(memory.data(), memory.size());
  }
}

TEST(CaptureRing, MapsWhatCreateMadeOnly) {
  EXPECT_FALSE(CaptureRing::create(1000).ok());
  const int other = ::memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(::ftruncate(other, 4096 + CaptureEnds::kSmallest), 0);
  EXPECT_FALSE(CaptureRing::map(other).ok());
  ::close(other);
  EXPECT_FALSE(CaptureRing::map(-1).ok());
}

}  // namespace
}  // namespace verbena::link::test
