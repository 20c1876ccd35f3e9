// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/capture/recorder.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <list>
#include <string>
#include <vector>

#include "capture_file.hpp"
#include "verbena/wire/bth.hpp"
#include "verbena/wire/bytes.hpp"
#include "verbena/wire/icrc.hpp"
#include "verbena/wire/opcode.hpp"

namespace verbena::capture::test {
namespace {

using link::CaptureRecord;
using link::CaptureRing;
using link::CaptureWriter;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Bytes = std::vector<std::uint8_t>;
using Found = Recorder::Found;

constexpr TimeNs kWallOffset = 1'600'000'000'000'000'000;
TimeNs g_now = 0;
TimeNs virtual_now() noexcept { return g_now; }
TimeNs virtual_wall() noexcept { return g_now + kWallOffset; }

const IpAddress kHere = IpAddress::v4(0x7f010203);
const IpAddress kElsewhere = IpAddress::v4(0x0a000001);

Bytes packet_to(std::uint32_t qpn, std::uint32_t psn, std::size_t length = 64) {
  Bytes packet(length, 0x5a);
  wire::Bth bth;
  bth.opcode = static_cast<std::uint8_t>(wire::Opcode::kRcSendOnly);
  bth.dest_qp = Qpn(qpn);
  bth.psn = Psn(psn);
  bth.write_to(packet.data());
  return packet;
}

class RecorderTest : public ::testing::Test {
 protected:
  RecorderTest() {
    g_now = 1'000'000'000;
    recorder_ = std::make_unique<Recorder>("a test", &virtual_now, &virtual_wall);
  }

  struct Program {
    Recorder::Origin origin;
    std::unique_ptr<CaptureWriter> writer;

    void record(TimeNs time, std::uint32_t to, std::uint32_t psn, CaptureRecord more = {}) {
      const Bytes packet = packet_to(to, psn);
      if (more.source == IpAddress{}) more.source = kHere;
      if (more.destination == IpAddress{}) more.destination = kHere;
      if (more.sender == 0) more.sender = origin.slot << 14 | 1;
      more.time = time;
      more.source_port = 0xc002;
      more.hop_limit = 64;
      more.length = more.kept = static_cast<std::uint32_t>(packet.size());
      writer->begin();
      writer->put(more, packet.data());
      writer->end();
    }
  };

  Program& add(const std::string& name, std::uint32_t pid, std::uint32_t slot) {
    const int fd = CaptureRing::create(64 * 1024).value();
    Recorder::Origin origin{next_++, pid, name, "verbena0", kHere, slot};
    recorder_->add(origin, CaptureRing::map(fd).value());
    programs_.push_back({origin, std::make_unique<CaptureWriter>(CaptureRing::map(fd).value())});
    ::close(fd);
    return programs_.back();
  }

  // Returns the given fields of all packets that were written so far.
  std::vector<CaptureFile::Row> dissect(const std::string& fields) {
    const auto blocks = recorder_->blocks();
    file_.insert(file_.end(), blocks.begin(), blocks.end());
    recorder_->written(blocks.size());
    return CaptureFile(file_).dissect(fields);
  }
  std::vector<std::string> psns() {
    std::vector<std::string> all;
    for (const auto& row : dissect("infiniband.bth.psn")) all.push_back(row[0]);
    return all;
  }

  std::unique_ptr<Recorder> recorder_;
  std::list<Program> programs_;
  std::uint32_t next_ = 1;
  Bytes file_;
};

TEST_F(RecorderTest, WiresharkReadsRoce) {
  Program& program = add("app", 4711, 3);
  program.record(g_now, 0x8001, 77);
  EXPECT_EQ(recorder_->read(), Found::kSome);
  const auto rows = dissect(
      "frame.time_epoch frame.protocols ip.src ip.dst udp.dstport "
      "infiniband.bth.psn infiniband.bth.destqp udp.length "
      "udp.srcport infiniband.invariant.crc frame.interface_name");
  ASSERT_EQ(rows.size(), 1u);
  const auto& row = rows[0];
  EXPECT_EQ(row[0], "1600000001.000000000");
  EXPECT_THAT(row[1], HasSubstr("ip:udp:infiniband"));
  EXPECT_EQ((CaptureFile::Row{row[2], row[3], row[4], row[5], row[6], row[7]}),
            (CaptureFile::Row{"127.1.2.3", "127.1.2.3", "4791", "77", "0x008001", "76"}));
  std::uint8_t stored[4];
  wire::store_le32(stored, wire::IcrcFlow(kHere, kHere, 0xc002).compute(packet_to(0x8001, 77)));
  EXPECT_EQ(std::stoul(row[9], nullptr, 16), wire::load_be32(stored));
  EXPECT_EQ(row[10], "app[4711]");
}

TEST_F(RecorderTest, WiresharkReadsIpv6) {
  Program& program = add("app", 4711, 3);
  CaptureRecord record;
  record.source = record.destination = IpAddress::parse("fd00::1").value();
  program.record(g_now, 0x8001, 3, record);
  recorder_->read();
  EXPECT_THAT(dissect("ipv6.src infiniband.bth.psn"), ElementsAre(ElementsAre("fd00::1", "3")));
}

TEST_F(RecorderTest, AllAreInOrderOfTime) {
  Program& one = add("one", 1, 1);
  Program& two = add("two", 2, 2);
  const TimeNs begin = g_now;
  for (std::uint32_t i = 0; i < 10; i += 2) one.record(begin + i, 0x8001, i);
  for (std::uint32_t i = 1; i < 10; i += 2) two.record(begin + i, 0x4001, i);
  g_now += 100;
  EXPECT_EQ(recorder_->read(), Found::kSome);
  EXPECT_EQ(recorder_->read(), Found::kNothing);
  EXPECT_THAT(psns(), ElementsAre("0", "1", "2", "3", "4", "5", "6", "7", "8", "9"));
}

TEST_F(RecorderTest, WhoIsAtARecordIsWaitedForButNotForEver) {
  Program& slow = add("slow", 1, 1);
  Program& quick = add("quick", 2, 2);
  recorder_->read();
  slow.writer->begin();  // the writer has read the clock, and has made no record yet
  quick.record(g_now + 10, 0x4001, 10);
  g_now += 20;
  EXPECT_EQ(recorder_->read(), Found::kNothing);
  g_now += Recorder::kPatience / 2;
  EXPECT_EQ(recorder_->read(), Found::kNothing);
  g_now += Recorder::kPatience;
  EXPECT_EQ(recorder_->read(), Found::kSome);
  slow.record(1'000'000'005, 0x8001, 5);
  slow.writer->end();
  g_now += 1;
  recorder_->read();
  const auto rows = dissect("infiniband.bth.psn frame.time_epoch");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1][0], "5");
  EXPECT_EQ(rows[1][1], rows[0][1]) << "no packet is older than the one before it";
}

// No look of the recorder finds a writer at rest that makes one record after the other.
TEST_F(RecorderTest, WhoIsAlwaysAtRecordsHoldsNobodyUp) {
  Program& busy = add("busy", 1, 1);
  for (std::uint32_t i = 0; i < 5; ++i) {
    busy.record(g_now, 0x8001, i);
    busy.writer->begin();
    g_now += 10;
    recorder_->read();
    busy.writer->end();
    g_now += 10;
  }
  EXPECT_GE(psns().size(), 4u);
}

TEST_F(RecorderTest, ReadsNothingThatIsYounger) {
  Program& program = add("app", 1, 1);
  program.record(g_now + 10, 0x8001, 1);
  program.record(g_now + 30, 0x8001, 2);
  const TimeNs until = g_now + 20;
  g_now += 100;
  EXPECT_EQ(recorder_->read(until), Found::kSome);
  EXPECT_EQ(recorder_->read(until), Found::kAll);
  EXPECT_THAT(psns(), ElementsAre("1"));
}

TEST_F(RecorderTest, SaysWhoseQueuePairsTheyAreAndWhatAFaultTook) {
  Program& one = add("one", 1, 1);
  add("two", 2, 2);
  recorder_->add_slot(2, 1022);
  one.record(g_now, 0x8001, 1);
  one.record(g_now, 0x8001, 2);
  one.record(g_now, 1022 << 14 | 5, 3);
  CaptureRecord lost;
  lost.fate = CaptureRecord::Fate::kLost;
  one.record(g_now, 0x8001, 4, lost);
  CaptureRecord damaged;
  damaged.fate = CaptureRecord::Fate::kDamaged;
  one.record(g_now, 0x8001, 5, damaged);
  CaptureRecord ruled;
  ruled.fate = CaptureRecord::Fate::kRuled;
  one.record(g_now, 0x8001, 6, ruled);
  CaptureRecord withheld;
  withheld.fate = CaptureRecord::Fate::kWithheld;
  one.record(g_now, 0x8001, 6, withheld);
  CaptureRecord away;
  away.destination = kElsewhere;
  one.record(g_now, 17, 6, away);
  CaptureRecord inbound;
  inbound.source = kElsewhere;
  inbound.direction = CaptureRecord::Direction::kInbound;
  one.record(g_now, 0x4001, 7, inbound);
  CaptureRecord group;
  group.destination = IpAddress::v4(0xef000001);
  one.record(g_now, 0xffffff, 8, group);
  recorder_->read();
  std::vector<std::string> comments;
  for (const auto& row : dissect("frame.comment")) comments.push_back(row[0]);
  EXPECT_THAT(comments, ElementsAre("QP 0x004001 of one[1] to QP 0x008001 of two[2]", "",
                                    "QP 0x004001 of one[1] to QP 0xff8005 of two[2]",
                                    "lost: an injected fault took this packet",
                                    "damaged by an injected fault: its receiver drops it",
                                    "changed, repeated or held back by an injected rule",
                                    "not sent again: an injected rule still holds this packet back",
                                    "QP 0x004001 of one[1] to QP 0x000011 at 10.0.0.1",
                                    "from 10.0.0.1 to QP 0x004001 of one[1]",
                                    "QP 0x004001 of one[1] to multicast group 239.0.0.1"));
}

TEST_F(RecorderTest, AProcessHasOneInterfaceHoweverManyContexts) {
  Program& first = add("app", 9, 1);
  Program& second = add("app", 9, 2);
  first.record(g_now, 0x8001, 1);
  second.record(g_now, 0x4001, 2);
  recorder_->end(1);
  recorder_->end(2);
  recorder_->read();
  add("other", 10, 3).record(g_now, 0x8001, 3);
  recorder_->read();
  EXPECT_THAT(dissect("frame.interface_id frame.interface_name"),
              ElementsAre(ElementsAre("0", "app[9]"), ElementsAre("0", "app[9]"),
                          ElementsAre("1", "other[10]")));
}

TEST_F(RecorderTest, CountsWhatDidNotFit) {
  Program& program = add("app", 9, 1);
  for (std::uint32_t i = 0; i < 1000; ++i) program.record(g_now, 0x8001, i);
  while (recorder_->read() == Found::kSome) {
  }
  EXPECT_GT(recorder_->packets(), 100u);
  EXPECT_EQ(recorder_->packets() + recorder_->dropped(), 1000u);
  recorder_->finish();
  EXPECT_EQ(dissect("frame.number").size(), recorder_->packets());
}

TEST_F(RecorderTest, WhatTheFileDidNotTakeCountsAsLeftOut) {
  Program& program = add("app", 9, 1);
  program.record(g_now, 0x8001, 1);
  recorder_->read();
  EXPECT_EQ(psns().size(), 1u);
  program.record(g_now, 0x8001, 2);
  program.record(g_now, 0x8001, 3);
  recorder_->read();
  recorder_->give_up_blocks();
  EXPECT_TRUE(recorder_->blocks().empty());
  EXPECT_EQ(recorder_->packets(), 1u);
  EXPECT_EQ(recorder_->dropped(), 2u);
}

// While the blocks are not taken, what is read is bounded, and so is what ended programs left.
TEST_F(RecorderTest, IsBoundedWhileNobodyTakesAnything) {
  std::size_t ended = 0;
  for (; ended < Recorder::kEndedMost + 50; ++ended) {
    Program& program = add("app", 100 + static_cast<std::uint32_t>(ended), 1);
    for (std::uint32_t i = 0; i < 100; ++i) program.record(g_now, 0x8001, i);
    recorder_->end(program.origin.number);
    programs_.clear();
    recorder_->read();
    ASSERT_LT(recorder_->blocks().size(), Recorder::kBufferBytes * 2);
  }
  do {
    recorder_->written(recorder_->blocks().size());
  } while (recorder_->read() == Found::kSome);
  EXPECT_GT(recorder_->dropped(), 0u);
  EXPECT_EQ(recorder_->packets() + recorder_->dropped(), 100u * ended);
}

}  // namespace
}  // namespace verbena::capture::test
