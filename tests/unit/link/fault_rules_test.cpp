// SPDX-License-Identifier: BSD-2-Clause
// What rules for single packets do in the fault decorator, on virtual time.
#include "fault_link_fixture.hpp"

namespace verbena::link::test::faults {
namespace {

using FaultRulesTest = FaultLinkTest;
using Psns = std::vector<std::uint32_t>;

TEST_F(FaultRulesTest, ARuleLosesOnePacketOnce) {
  set_script({"drop nth=3"});
  EXPECT_FALSE(link_->is_idle());
  send(0, 5);
  send(2, 3);
  EXPECT_EQ(psns_sent(), (Psns{0, 1, 3, 4, 2, 3, 4}));
  EXPECT_EQ(drops_.read(DropReason::kInjected), 1u);
  EXPECT_EQ(rule_counters_[1].fired(), 1u);
  set_script({});
  EXPECT_TRUE(link_->is_idle());
}

TEST_F(FaultRulesTest, ARuleThatStaysGoesOnCounting) {
  set_script({"drop nth=3"});
  send(0, 2);
  set_script({"drop nth=3", "duplicate nth=2"});
  send(2, 3);
  EXPECT_EQ(psns_sent(), (Psns{0, 1, 3, 3, 4}));
  EXPECT_EQ(rule_counters_[1].matched(), 5u);
  EXPECT_EQ(rule_counters_[2].matched(), 3u);
}

TEST_F(FaultRulesTest, RulesAndChancesTogether) {
  set_for_all({.drop_ppm = 100'000});
  fault::Flow flow(kProgram);
  Psns wanted;
  for (std::uint32_t psn = 0; psn < 200; ++psn) {
    const bool arrives = fate_of(flow, {.drop_ppm = 100'000}, psn).arrives();
    if (arrives && (psn + 1) % 10 != 0) wanted.push_back(psn);
  }
  set_script({"drop every=10"});
  send(0, 200);
  EXPECT_EQ(psns_sent(), wanted);
}

TEST_F(FaultRulesTest, ADelayedPacketIsOvertakenOrNot) {
  set_script({"delay=1ms nth=2"});
  send(0, 3);
  pass_time(1'000'000);
  EXPECT_EQ(psns_sent(), (Psns{0, 2, 1}));
  set_script({"delay=1ms psn=11 order=keep"});
  recorder_->sent.clear();
  send(10, 3);
  EXPECT_EQ(psns_sent(), (Psns{10}));
  send(13, 1);
  EXPECT_EQ(link_->next_due(), g_now + 1'000'000);
  pass_time(1'000'000);
  EXPECT_EQ(psns_sent(), (Psns{10, 11, 12, 13}));
}

TEST_F(FaultRulesTest, APacketGoesBehindTheNextOnes) {
  set_script({"reorder=2 nth=2"});
  send(0, 3);
  EXPECT_EQ(psns_sent(), (Psns{0, 2}));
  send(0, 1, kOtherFlow);  // the first packet of another queue pair
  send(3, 2);
  EXPECT_EQ(psns_sent(), (Psns{0, 2, 0, 3, 1, 4}));
}

TEST_F(FaultRulesTest, APacketGoesBehindTheNextOnesOfALongLine) {
  set_for_all({.delay_ns = 1'000'000});
  set_script({"reorder=2 nth=3"});
  for (std::uint32_t psn = 0; psn < 6; ++psn) {
    send(psn, 1);
    g_now += 1'000;
  }
  pass_time(900'000);
  EXPECT_TRUE(recorder_->sent.empty());
  pass_time(1'000'000);
  EXPECT_EQ(psns_sent(), (Psns{0, 1, 3, 4, 2, 5}));
}

TEST_F(FaultRulesTest, APacketThatNobodyOvertakesGoesAfterAWhile) {
  set_script({"reorder=2 nth=2"});
  send(0, 2);
  pass_time(FaultLink::kOvertakenMost - 1);
  EXPECT_EQ(psns_sent(), (Psns{0}));
  pass_time(1);
  EXPECT_EQ(psns_sent(), (Psns{0, 1}));
  send(2, 2);
  EXPECT_EQ(psns_sent(), (Psns{0, 1, 2, 3}));
}

TEST_F(FaultRulesTest, WhatIsHeldGoesWhenItsTimeHasCome) {
  set_script({"hold=1ms first=3"});
  send(0, 2);
  g_now += 400'000;
  send(2, 2);
  EXPECT_EQ(psns_sent(), (Psns{3}));
  pass_time(600'000);
  EXPECT_EQ(psns_sent(), (Psns{3, 0, 1, 2}));
  send(4, 1);
  EXPECT_EQ(rule_counters_[1].fired(), 3u);
}

// A packet of 104 bytes with ICRC takes a millisecond. Packets of one rule wait for each other.
TEST_F(FaultRulesTest, ALineOfASpeedCarriesOneAfterTheOther) {
  set_script({"rate=832kbit"});
  send(0, 2);
  send(10, 1, kOtherFlow);
  EXPECT_EQ(psns_sent(), (Psns{}));
  send(0, 1);  // repeated meanwhile
  for (std::size_t sent = 1; sent <= 3; ++sent) {
    pass_time(999'999);
    EXPECT_EQ(recorder_->sent.size(), sent - 1);
    pass_time(1);
    EXPECT_EQ(recorder_->sent.size(), sent);
  }
}

TEST_F(FaultRulesTest, ARequestIsMarkedForItsReceiver) {
  set_script({"nak=access nth=2", "corrupt nth=3"});
  send(0, 4);
  ASSERT_EQ(recorder_->sent.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto& sent = recorder_->sent[i];
    EXPECT_EQ(sent.mark, i == 1 ? 4 : 0) << i;
    EXPECT_EQ(sent.damaged, i == 2) << i;
  }
}

}  // namespace
}  // namespace verbena::link::test::faults
