// SPDX-License-Identifier: BSD-2-Clause
// The fault decorator on virtual time: every fault happens as often as the seed says, no other
// packet is lost, and without faults no packet is touched.
#include <thread>

#include "fault_link_fixture.hpp"

namespace verbena::link::test::faults {
namespace {

TEST_F(FaultLinkTest, PassesEverythingThroughWithoutFaults) {
  send(0, 100);
  EXPECT_EQ(recorder_->sent.size(), 100u);
  EXPECT_EQ(recorder_->calls, 4u);
  EXPECT_EQ(counted(FaultCounter::kPackets), 0u);
  EXPECT_EQ(link_->next_due(), kNever);
}

TEST_F(FaultLinkTest, DropsExactlyWhatTheSeedSays) {
  constexpr fault::Settings kSettings{.drop_ppm = 100'000};
  set_for_all(kSettings);
  constexpr std::uint32_t kPackets = 5000;
  send(0, kPackets);
  fault::Flow expected(kProgram);
  std::vector<std::uint32_t> survivors;
  for (std::uint32_t psn = 0; psn < kPackets; ++psn) {
    if (!fate_of(expected, kSettings, psn).is_lost) survivors.push_back(psn);
  }
  ASSERT_EQ(recorder_->sent.size(), survivors.size());
  for (std::size_t i = 0; i < survivors.size(); ++i) {
    ASSERT_EQ(recorder_->sent[i].psn, survivors[i]);
  }
  const std::uint64_t lost = kPackets - survivors.size();
  EXPECT_NEAR(static_cast<double>(lost), 500.0, 80.0);
  EXPECT_EQ(counted(FaultCounter::kPackets), kPackets);
  EXPECT_EQ(counted(FaultCounter::kLost), lost);
  EXPECT_EQ(counted(FaultCounter::kLostRequests), lost);
  EXPECT_EQ(drops_.read(DropReason::kInjected), lost);
}

TEST_F(FaultLinkTest, EveryFlowMeetsItsOwnFaultsWhateverTheOthersDo) {
  set_for_all({.drop_ppm = 300'000, .duplicate_ppm = 200'000});
  send(0, 200, kFlow);
  const auto alone = copies_by_psn();

  auto inner = std::make_unique<Recorder>();
  Recorder& mixed = *inner;
  link_ = std::make_unique<FaultLink>(std::move(inner), kProgram, drops_, &virtual_now);
  set_for_all({.drop_ppm = 300'000, .duplicate_ppm = 200'000});
  for (std::uint32_t i = 0; i < 200; ++i) {
    send(1000 + i, 1 + i % 3, kOtherFlow);
    send(i, 1, kFlow);
  }
  std::map<std::uint32_t, int> copies;
  for (const auto& s : mixed.sent) {
    if (s.flow == kFlow) ++copies[s.psn];
  }
  EXPECT_EQ(copies, alone);
}

TEST_F(FaultLinkTest, DuplicatesAndDamagesAsOftenAsTheSeedSays) {
  constexpr fault::Settings kSettings{.corrupt_ppm = 50'000, .duplicate_ppm = 250'000};
  set_for_all(kSettings);
  constexpr std::uint32_t kPackets = 4000;
  send(0, kPackets);
  fault::Flow expected(kProgram);
  std::map<std::uint32_t, int> copies;
  std::uint64_t corrupted = 0;
  std::uint64_t duplicated = 0;
  for (std::uint32_t psn = 0; psn < kPackets; ++psn) {
    const fault::Fate fate = fate_of(expected, kSettings, psn);
    corrupted += fate.damaged_bit ? 1 : 0;
    duplicated += fate.is_doubled ? 1 : 0;
    copies[psn] = fate.is_doubled ? 2 : 1;
  }
  EXPECT_EQ(copies_by_psn(), copies);
  EXPECT_EQ(counted(FaultCounter::kCorrupted), corrupted);
  EXPECT_EQ(counted(FaultCounter::kDuplicated), duplicated);
  // A damaged packet may also be duplicated. Then both copies are damaged.
  const auto damaged = std::count_if(recorder_->sent.begin(), recorder_->sent.end(),
                                     [](const auto& s) { return s.damaged; });
  EXPECT_GE(static_cast<std::uint64_t>(damaged), corrupted);
}

TEST_F(FaultLinkTest, DelaysEveryPacketByItsTime) {
  set_for_all({.delay_ns = 3'000'000});
  const TimeNs start = g_now;
  send(0, 10);
  EXPECT_TRUE(recorder_->sent.empty());
  EXPECT_EQ(link_->next_due(), start + 3'000'000);
  pass_time(1'000'000);
  send(10, 10);
  pass_time(1'999'999);
  EXPECT_TRUE(recorder_->sent.empty());
  pass_time(1);
  ASSERT_EQ(recorder_->sent.size(), 10u);
  EXPECT_EQ(link_->next_due(), start + 4'000'000);
  pass_time(1'000'000);
  ASSERT_EQ(recorder_->sent.size(), 20u);
  for (std::uint32_t i = 0; i < 20; ++i) EXPECT_EQ(recorder_->sent[i].psn, i);
  EXPECT_EQ(counted(FaultCounter::kDelayed), 20u);
  EXPECT_EQ(link_->next_due(), kNever);
}

TEST_F(FaultLinkTest, JitterStaysWithinItsBounds) {
  set_for_all({.delay_ns = 1000, .jitter_ns = 9000});
  const TimeNs start = g_now;
  send(0, 200);
  while (recorder_->sent.size() < 200 && g_now < start + 20'000) pass_time(100);
  ASSERT_EQ(recorder_->sent.size(), 200u);
  for (const auto& s : recorder_->sent) {
    EXPECT_GE(s.when, start + 1000);
    EXPECT_LE(s.when, start + 10'100);
  }
  EXPECT_EQ(copies_by_psn().size(), 200u);
}

TEST_F(FaultLinkTest, ReorderedPacketsComeLaterButCome) {
  set_for_all({.reorder_ppm = 200'000, .reorder_ns = 50'000});
  for (std::uint32_t i = 0; i < 500; ++i) {
    send(i, 1);
    pass_time(10'000);
  }
  pass_time(50'000);
  ASSERT_EQ(recorder_->sent.size(), 500u);
  EXPECT_EQ(copies_by_psn().size(), 500u);
  std::uint64_t overtaken = 0;
  for (std::size_t i = 1; i < recorder_->sent.size(); ++i) {
    if (recorder_->sent[i].psn < recorder_->sent[i - 1].psn) ++overtaken;
  }
  EXPECT_GT(overtaken, 50u);
  EXPECT_NEAR(static_cast<double>(counted(FaultCounter::kReordered)), 100.0, 40.0);
}

TEST_F(FaultLinkTest, ALineCarriesNoMoreThanItsRate) {
  // 96 bytes and the ICRC: 100 bytes, one packet a millisecond.
  set_for_all({.bytes_per_second = 100'000});
  const TimeNs start = g_now;
  send(0, 50, kFlow, 96);
  send(50, 50, kOtherFlow, 96);
  for (std::uint32_t ms = 1; ms <= 100; ++ms) {
    pass_time(1'000'000);
    ASSERT_EQ(recorder_->sent.size(), ms);
    EXPECT_EQ(recorder_->sent.back().psn, ms - 1);
  }
  EXPECT_EQ(g_now, start + 100'000'000);
}

TEST_F(FaultLinkTest, LosesWhatNoRouterWouldHold) {
  set_for_all({.delay_ns = 1'000'000'000});
  const auto fitting = static_cast<std::uint32_t>(FaultLink::kHeldBytesMax / 1000);
  send(0, fitting + 64, kFlow, 1000);
  EXPECT_EQ(counted(FaultCounter::kLost), 64u);
  EXPECT_EQ(recorder_->lost, 64u);  // a capture shows them
  EXPECT_EQ(counted(FaultCounter::kDelayed), fitting);
  pass_time(1'000'000'000);
  EXPECT_EQ(recorder_->sent.size(), fitting);
}

// 100,000 bytes a second, for 10 s after the buffer was full.
TEST_F(FaultLinkTest, WhatFindsNoRoomTakesNoTimeOfTheLine) {
  constexpr TimeNs kOfOne = 10'000'000;  // 996 bytes and the ICRC
  set_for_all({.bytes_per_second = 100'000});
  const auto fitting = static_cast<std::uint32_t>(FaultLink::kHeldBytesMax / 996);
  send(0, 2 * fitting, kFlow, 996);
  EXPECT_EQ(counted(FaultCounter::kLost), fitting);
  pass_time(fitting * kOfOne);
  EXPECT_EQ(recorder_->sent.size(), fitting);
  send(0, 1, kFlow, 996);
  pass_time(kOfOne);
  EXPECT_EQ(recorder_->sent.size(), fitting + 1);
}

// 50 packets of 100 bytes wait for a line. It becomes a hundred times as fast, and they go first.
TEST_F(FaultLinkTest, AFasterLineKeepsTheOrderAndNoOldTimes) {
  for (const bool has_own_line : {false, true}) {
    recorder_->sent.clear();
    set_for_all({});
    set_for(has_own_line ? kFlow : Qpn(0), {.bytes_per_second = 1'000}, has_own_line);
    send(0, 50, kFlow, 96);
    pass_time(200'000'000);
    EXPECT_EQ(recorder_->sent.size(), 2u);
    set_for(has_own_line ? kFlow : Qpn(0), {.bytes_per_second = 100'000}, has_own_line);
    send(50, 2, kFlow, 96);
    for (std::uint32_t sent = 3; sent <= 52; ++sent) {
      pass_time(1'000'000);
      ASSERT_EQ(recorder_->sent.size(), sent);
      EXPECT_EQ(recorder_->sent.back().psn, sent - 1);
    }
  }
}

TEST_F(FaultLinkTest, ASlowerLineKeepsTheOrder) {
  set_for_all({.delay_ns = 500'000, .bytes_per_second = 100'000});
  send(0, 3, kFlow, 96);
  pass_time(1'000'000);  // the first is behind the line
  set_for_all({.delay_ns = 500'000, .bytes_per_second = 10'000});
  send(3, 1, kFlow, 96);
  pass_time(500'000);
  for (std::uint32_t sent = 1; sent <= 4; ++sent) {
    EXPECT_EQ(recorder_->sent.size(), sent);
    EXPECT_EQ(recorder_->sent.back().psn, sent - 1);
    pass_time(10'000'000);
  }
}

TEST_F(FaultLinkTest, WhatWaitsForALineThatIsGoneGoesAtOnce) {
  const auto expect_all_at_once = [this] {
    EXPECT_TRUE(recorder_->sent.empty());
    send(10, 5, kFlow, 96);
    EXPECT_EQ(psns_sent(), (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 10, 11, 12, 13, 14}));
    EXPECT_EQ(link_->next_due(), kNever);
    recorder_->sent.clear();
  };
  set_for_all({.bytes_per_second = 1'000});
  send(0, 5, kFlow, 96);
  clear();
  expect_all_at_once();
  set_script({"rate=1kB"});
  send(0, 5, kFlow, 96);
  set_script({});
  expect_all_at_once();
}

// Another link of the context, which has not heard of the new speed, makes the line forget.
TEST_F(FaultLinkTest, NoPacketOfAFlowPassesAnotherOneInALine) {
  set_for_all({.bytes_per_second = 1'000});
  send(0, 5, kFlow, 96);
  (void)link_->lines()->wait_for_all(100, 2'000, g_now);
  send(5, 5, kFlow, 96);
  for (int i = 0; i < 10; ++i) pass_time(100'000'000);
  ASSERT_EQ(recorder_->sent.size(), 10u);
  for (std::uint32_t i = 0; i < 10; ++i) EXPECT_EQ(recorder_->sent[i].psn, i);
}

TEST_F(FaultLinkTest, TellsHowLongAFlowWaitsForALine) {
  set_for_all({.delay_ns = 1'000'000'000});
  send(0, 5, kFlow, 96);
  EXPECT_EQ(link_->wait_of_line(kFlow, g_now), 0u);
  set_for_all({.bytes_per_second = 1'000});
  send(0, 5, kFlow, 96);
  EXPECT_EQ(link_->wait_of_line(kFlow, g_now), 500'000'000u);
  EXPECT_EQ(link_->wait_of_line(kOtherFlow, g_now), 0u);
  pass_time(200'000'000);
  EXPECT_EQ(link_->wait_of_line(kFlow, g_now), 300'000'000u);
  set_for_all({.bytes_per_second = 10'000});
  EXPECT_EQ(link_->wait_of_line(kFlow, g_now), 30'000'000u);
  clear();
  EXPECT_EQ(link_->wait_of_line(kFlow, g_now), 0u);
}

// 50 packets of 100 bytes, 100,000 bytes a second.
TEST_F(FaultLinkTest, AFlowWithAFaultOfItsOwnSharesTheLine) {
  const auto time_of_all = [this](bool has_own_line) {
    recorder_->sent.clear();
    set_for_all({.bytes_per_second = 100'000});
    set_for(kFlow, {.drop_ppm = 1, .bytes_per_second = 100'000}, has_own_line);
    const TimeNs begin = g_now;
    send(0, 25, kFlow, 96);
    send(0, 25, kOtherFlow, 96);
    while (recorder_->sent.size() < 50) pass_time(1'000'000);
    return g_now - begin;
  };
  EXPECT_EQ(time_of_all(false), 50'000'000u);
  EXPECT_EQ(time_of_all(true), 25'000'000u);
}

TEST_F(FaultLinkTest, AFilterSparesTheOthers) {
  set_for(kFlow, {.drop_ppm = 1'000'000});
  send(0, 10, kFlow);
  send(0, 10, kOtherFlow);
  EXPECT_EQ(recorder_->sent.size(), 10u);
  set_for_all({.drop_ppm = 1'000'000});
  set_for(kFlow, {});
  send(0, 10, kFlow);
  send(0, 10, kOtherFlow);
  EXPECT_EQ(recorder_->sent.size(), 20u);
  for (std::size_t i = 10; i < 20; ++i) EXPECT_EQ(recorder_->sent[i].flow, kFlow);
}

TEST_F(FaultLinkTest, WhatIsHeldBackComesAfterTheFaultsEnd) {
  set_for_all({.delay_ns = 5'000'000});
  send(0, 5);
  clear();
  EXPECT_NE(link_->next_due(), kNever);
  pass_time(5'000'000);
  EXPECT_EQ(recorder_->sent.size(), 5u);
  const std::uint64_t seen = counted(FaultCounter::kPackets);
  send(5, 5);
  EXPECT_EQ(recorder_->sent.size(), 10u);
  EXPECT_EQ(counted(FaultCounter::kPackets), seen);
}

TEST_F(FaultLinkTest, OffersAgainWhatTheInnerLinkHadNoRoomFor) {
  set_for_all({.duplicate_ppm = 1});
  recorder_->room = 3;
  send(0, 10);
  EXPECT_EQ(recorder_->sent.size(), 3u);
  EXPECT_NE(link_->next_due(), kNever);
  recorder_->room = 1000;
  pass_time(1'000'000);
  ASSERT_EQ(recorder_->sent.size(), 10u);
  for (std::uint32_t i = 0; i < 10; ++i) EXPECT_EQ(recorder_->sent[i].psn, i);
}

TEST_F(FaultLinkTest, KeepsTheOrderOfPacketsThatWaitForRoom) {
  set_for_all({.duplicate_ppm = 1});
  recorder_->room = 3;
  send(0, 10);
  recorder_->room = 1000;
  send(10, 10);
  send(0, 5, kOtherFlow);  // does not wait for another flow
  EXPECT_EQ(recorder_->sent.size(), 8u);
  recorder_->room = 2;
  pass_time(1'000'000);
  send(20, 10);
  recorder_->room = 1000;
  pass_time(1'000'000);
  std::uint32_t next = 0;
  for (const auto& packet : recorder_->sent) {
    if (packet.flow == kFlow) {
      EXPECT_EQ(packet.psn, next++);
    }
  }
  EXPECT_EQ(next, 30u);
  EXPECT_EQ(link_->next_due(), kNever);
}

TEST_F(FaultLinkTest, PacketsOfALongLineWaitBehindThoseThatWaitForRoom) {
  set_for_all({.delay_ns = 50'000});
  recorder_->room = 0;
  for (std::uint32_t psn = 0; psn < 20; ++psn) {
    send(psn, 1);
    pass_time(10'000);
  }
  recorder_->room = 1000;
  pass_time(1'000'000);
  ASSERT_EQ(recorder_->sent.size(), 20u);
  for (std::uint32_t i = 0; i < 20; ++i) EXPECT_EQ(recorder_->sent[i].psn, i);
}

TEST_F(FaultLinkTest, SettingsMayChangeWhileOthersSend) {
  std::atomic<bool> stop{false};
  std::thread settings([&] {
    for (int i = 0; i < 300; ++i) {
      set_for_all({.duplicate_ppm = 1'000'000});
      set_for(kOtherFlow, {.delay_ns = 1});
      clear();
    }
    stop = true;
  });
  std::uint32_t sent = 0;
  do {
    send(sent++, 1);
  } while (!stop);
  settings.join();
  pass_time(1'000'000);
  EXPECT_EQ(copies_by_psn().size(), sent);
}

// Over real sockets the receiver's ICRC check drops the packets that the decorator damaged.
TEST(FaultLinkOverUdp, DamageIsNoticedByTheReceiver) {
  SlotGroup group_a = open_group(own_address(0));
  SlotGroup group_b = open_group(own_address(1));
  Node a(group_a);
  Node b(group_b);
  DropCounters drops;
  FaultCounters counters;
  FaultLink faulty(std::move(a.link), kProgram, drops);
  const FaultRule rules[] = {
      {.settings = {.corrupt_ppm = 300'000, .seed = kSeed}, .counters = &counters}};
  faulty.set_rules(rules);
  std::vector<std::uint32_t> sent;
  for (std::uint32_t i = 0; i < 200; ++i) {
    Batch batch(8192);
    batch.add(make_packet(b.qp(1), i, 1036), to(own_address(1)));
    ASSERT_EQ(faulty.send(batch.get(), a.qp(1)), 1u);
  }
  const std::uint64_t corrupted = counters.read(FaultCounter::kCorrupted);
  EXPECT_GT(corrupted, 20u);
  Collector sink;
  // A packet whose destination QPN was damaged may have gone elsewhere.
  receive_count(*b.link, sink, 200 - corrupted);
  while (b.link->receive(sink, 64) > 0) {
  }
  EXPECT_EQ(sink.arrived.size(), 200 - corrupted);
  EXPECT_LE(b.drops.read(DropReason::kBadIcrc), corrupted);
  EXPECT_GE(b.drops.read(DropReason::kBadIcrc) + 10, corrupted);
}

}  // namespace
}  // namespace verbena::link::test::faults
