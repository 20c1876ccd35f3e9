// How a reader chooses between fetching large payloads and having them through the ring, by a clock
// that the test turns: on machines where the one is faster, or the other, or where it changes.
#include "verbena/link/direct_choice.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "verbena/wire/bth.hpp"
#include "verbena/wire/direct.hpp"
#include "verbena/wire/opcode.hpp"

namespace verbena::link {
namespace {

TimeNs time_now = 0;
int readings = 0;

TimeNs fake_clock() noexcept {
  ++readings;
  return time_now;
}

class NoMemory final : public wire::SenderMemory {
 public:
  bool fetch(std::span<const wire::FetchTarget>, std::span<const wire::MemoryRange>,
             const wire::Witness&) noexcept override {
    return false;
  }
};

constexpr std::size_t kPart = 4096;

// A reader with a writer that does as it is told, at once.
class DirectChoiceTest : public testing::Test {
 protected:
  void SetUp() override {
    time_now = 1'000'000;
    readings = 0;
  }

  void handle(wire::Opcode opcode, std::size_t length, std::uint32_t qpn, TimeNs work,
              std::uint64_t fetched = 0) {
    std::vector<std::uint8_t> bytes(length);
    wire::Bth bth;
    bth.opcode = static_cast<std::uint8_t>(opcode);
    bth.dest_qp = Qpn(qpn);
    bth.write_to(bytes.data());
    wire::RxDatagram datagram;
    datagram.bytes = bytes;
    datagram.sender = fetched != 0 ? &memory_ : nullptr;
    if (!choice_.concerns(datagram)) {
      time_now += work;
      return;
    }
    choice_.before(datagram);
    time_now += work;
    changes_ += choice_.after(datagram, fetched);
  }
  void fetch(std::uint64_t length) {
    handle(wire::Opcode::kRcWriteOnly, 60, 1, direct_ * length / kPart, length);
  }
  void take_from_ring(std::uint64_t length, std::uint32_t qpn = 1) {
    for (std::uint64_t at = 0; at < length; at += kPart) {
      const bool is_last = at + kPart >= length;
      handle(at == 0    ? wire::Opcode::kRcWriteFirst
             : is_last ? wire::Opcode::kRcWriteLast
                       : wire::Opcode::kRcWriteMiddle,
             kPart, qpn, ring_);
    }
  }
  // A payload as the writer sends it now. Then something else goes on.
  void pass(std::uint64_t length = 65536) {
    const bool is_direct = choice_.prefers_direct();
    (is_direct ? directly_ : by_ring_) += 1;
    if (is_direct) {
      for (std::uint64_t left = length; left != 0;) {
        const std::uint64_t part = std::min<std::uint64_t>(left, 256 * 1024);
        fetch(part);
        left -= part;
      }
    } else {
      take_from_ring(length);
    }
    time_now += pause_ + (is_direct ? 0 : writer_ * length / kPart);
  }
  void pass_many(int count, std::uint64_t length = 65536) {
    directly_ = by_ring_ = 0;
    for (int i = 0; i < count; ++i) pass(length);
  }

  DirectChoice choice_{&fake_clock};
  NoMemory memory_;
  // Nanoseconds for 4 KiB, of the reader, and of a writer that the reader waits for.
  TimeNs direct_ = 300;
  TimeNs ring_ = 300;
  TimeNs writer_ = 0;
  TimeNs pause_ = 0;  // behind each payload
  int changes_ = 0;
  int directly_ = 0;
  int by_ring_ = 0;
};

TEST_F(DirectChoiceTest, BeginsDirectlyAndStaysSoWhereThatIsFaster) {
  ring_ = 600;
  EXPECT_TRUE(choice_.prefers_direct());
  pass_many(20'000);
  EXPECT_TRUE(choice_.prefers_direct());
  EXPECT_GT(by_ring_, 0);  // it was tried
  EXPECT_LT(by_ring_, 20'000 / 100);
  EXPECT_EQ(changes_ % 2, 0);
  pass_many(50'000);
  EXPECT_LT(by_ring_, 50'000 / 100) << "trials become rare";
}

TEST_F(DirectChoiceTest, GoesOverToTheRingWhereThatIsFaster) {
  ring_ = 200;
  pass_many(1'000);
  EXPECT_LT(directly_, 200);
  pass_many(50'000);
  EXPECT_LT(directly_, 50'000 / 100) << "trials become rare";
}

TEST_F(DirectChoiceTest, FollowsAMachineThatChanges) {
  for (int i = 0; i < 4; ++i) {
    ring_ = i % 2 == 0 ? 150 : 700;
    pass_many(40'000);
    EXPECT_EQ(choice_.prefers_direct(), i % 2 != 0) << i;
  }
}

TEST_F(DirectChoiceTest, IsNotMovedByLessThanATenth) {
  ring_ = 280;
  pass_many(20'000);
  EXPECT_TRUE(choice_.prefers_direct());
}

TEST_F(DirectChoiceTest, IsNotMovedByInterruptions) {
  for (int i = 0; i < 20'000; ++i) {
    const bool is_disturbed = i % 5 == 0;
    direct_ = is_disturbed ? 5'000 : 300;
    ring_ = is_disturbed ? 5'100 : 400;
    pass();
    if (i % 300 == 0) time_now += 4'000'000;
  }
  EXPECT_LT(by_ring_, 20'000 / 20);
}

// Two that share a processor: the reader finds all of a payload there, and is quick with it, but
// then waits for the writer.
TEST_F(DirectChoiceTest, CountsWhatAWriterSpendsOnTheSameProcessor) {
  ring_ = 200;
  writer_ = 250;
  pass_many(20'000);
  EXPECT_TRUE(choice_.prefers_direct());
  writer_ = 0;
  pass_many(40'000);
  EXPECT_FALSE(choice_.prefers_direct());
  writer_ = 250;  // from now on they do
  pass_many(40'000);
  EXPECT_TRUE(choice_.prefers_direct());
}

// One payload in a hundred microseconds, at no time that says anything: it shall come soon.
TEST_F(DirectChoiceTest, WhereOthersSetThePaceOnlyTheWorkCounts) {
  ring_ = 200;
  writer_ = 250;
  for (int i = 0; i < 40'000; ++i) {
    pause_ = 100'000 + static_cast<TimeNs>(i / 100 % 2) * 70'000;
    pass();
  }
  EXPECT_FALSE(choice_.prefers_direct());
}

// Bursts: what was measured before one is no reason to go another way in it.
TEST_F(DirectChoiceTest, IsNotMovedByIdleTimes) {
  ring_ = 500;
  for (int burst = 0; burst < 400; ++burst) {
    for (int i = 0; i < 100; ++i) pass();
    time_now += 50'000'000;
  }
  EXPECT_LT(by_ring_, 40'000 / 100);
}

TEST_F(DirectChoiceTest, MeasuresLongPayloadsInPartsAndShortOnesToo) {
  for (const std::uint64_t length : {24u << 10, 1u << 20, 100u << 20}) {
    choice_ = DirectChoice(&fake_clock);
    ring_ = 200;
    pass_many(40 + static_cast<int>((256u << 20) / length), length);
    EXPECT_FALSE(choice_.prefers_direct()) << length;
  }
}

TEST_F(DirectChoiceTest, WhatIsOnItsWayIsNotTakenForTheOtherWay) {
  ring_ = 200;
  while (choice_.prefers_direct()) pass();
  for (int i = 0; i < 1'000; ++i) fetch(65536);
  EXPECT_FALSE(choice_.prefers_direct());  // as before: nothing of the ring was seen
  EXPECT_EQ(changes_, 1);
}

TEST_F(DirectChoiceTest, WhatCannotBeFetchedLeavesAllAsItIs) {
  for (int i = 0; i < 1'000; ++i) {
    take_from_ring(65536);
    handle(wire::Opcode::kRcWriteOnly, 60, 1, 300);
  }
  EXPECT_EQ(changes_, 0);
  EXPECT_EQ(readings, 0);
}

TEST_F(DirectChoiceTest, ReadsNoClockForShortMessagesNorBetweenTrials) {
  pass_many(10'000);
  const int before = readings;
  EXPECT_LT(before, 20'000 / 10);
  choice_ = DirectChoice(&fake_clock);
  readings = 0;
  for (int i = 0; i < 1'000; ++i) {
    handle(wire::Opcode::kRcSendOnly, 100, 1, 10);
    handle(wire::Opcode::kRcSendOnly, kPart, 1, 10);
    take_from_ring(2 * kPart);
  }
  EXPECT_EQ(readings, 0);
}

// A queue pair that goes to the error state in the middle of a payload sends no last part.
TEST_F(DirectChoiceTest, APayloadThatNeverEndsIsForgotten) {
  ring_ = 200;
  while (choice_.prefers_direct()) pass();
  handle(wire::Opcode::kRcWriteFirst, kPart, 7, ring_);
  handle(wire::Opcode::kRcWriteMiddle, kPart, 7, ring_);
  pass_many(2'000);
  EXPECT_FALSE(choice_.prefers_direct());
  EXPECT_LT(directly_, 1'000);
}

}  // namespace
}  // namespace verbena::link
