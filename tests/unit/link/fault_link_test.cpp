// SPDX-License-Identifier: BSD-2-Clause
// The fault decorator on virtual time: every fault happens as often as the seed says, no other
// packet is lost, and without faults no packet is touched.
#include "verbena/link/fault_link.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "link_fixture.hpp"
#include "verbena/fault/flow.hpp"

namespace verbena::link::test {
namespace {

constexpr std::uint64_t kSeed = 20'251'120;
constexpr std::uint64_t kProgram = 4711;
const Qpn kFlow = Qpn::from(1, 7);
const Qpn kOtherFlow = Qpn::from(1, 8);

std::atomic<TimeNs> g_now{1'000'000'000};
TimeNs virtual_now() noexcept { return g_now.load(); }

// Remembers what was sent, and when.
class Recorder final : public Link {
 public:
  struct Sent {
    std::uint32_t psn;
    std::size_t length;
    Qpn flow;
    TimeNs when;
    bool damaged;
    std::uint8_t mark;
  };

  std::size_t send(wire::TxBatch& batch, Qpn flow) noexcept override {
    return record(batch, flow, false, std::min(room, batch.size()));
  }
  std::size_t send_damaged(wire::TxBatch& batch, Qpn flow, Damage) noexcept override {
    return record(batch, flow, true, batch.size());
  }
  std::size_t receive(RxSink&, std::size_t) noexcept override { return 0; }

  std::vector<Sent> sent;
  std::size_t room = ~std::size_t{0};
  std::size_t calls = 0;

 private:
  std::size_t record(wire::TxBatch& batch, Qpn flow, bool damaged, std::size_t count) {
    ++calls;
    for (const auto& p : batch.packets().first(count)) {
      const auto bytes = batch.bytes_of(p);
      const wire::BthView bth(bytes.data());
      sent.push_back({bth.psn().value(), p.length, flow, g_now, damaged, bth.mark()});
    }
    return count;
  }
};

class FaultLinkTest : public ::testing::Test {
 protected:
  FaultLinkTest() {
    auto inner = std::make_unique<Recorder>();
    recorder_ = inner.get();
    link_ = std::make_unique<FaultLink>(std::move(inner), kProgram, drops_, &virtual_now);
  }

  void set_for_all(const fault::Settings& settings) { set_for(Qpn(0), settings); }
  void set_for(Qpn flow, fault::Settings settings) {
    settings.seed = kSeed;
    std::erase_if(rules_, [flow](const FaultRule& rule) { return rule.flow == flow; });
    rules_.push_back({flow, settings, &counters_, false});
    link_->set_rules(rules_);
  }
  void set_script(std::initializer_list<std::string_view> lines) {
    script_.clear();
    for (const std::string_view line : lines) {
      auto rule = fault::parse_rule(line);
      ASSERT_TRUE(rule.ok()) << rule.error();
      const std::uint64_t id = script_.size() + 1;
      script_.push_back(fault::activate(id, std::move(*rule), kSeed, g_now));
      script_.back().counters = &rule_counters_[id];
    }
    link_->set_script(script_);
  }
  void clear() {
    rules_.clear();
    link_->set_rules({});
  }
  std::uint64_t counted(FaultCounter c) const { return counters_.read(c); }

  void send(std::uint32_t first_psn, std::uint32_t count, Qpn flow = kFlow,
            std::size_t length = 100) {
    for (std::uint32_t done = 0; done < count;) {
      Batch batch(64 * 1024);
      const std::uint32_t n = std::min<std::uint32_t>(32, count - done);
      for (std::uint32_t i = 0; i < n; ++i) {
        batch.add(make_packet(Qpn(9), first_psn + done + i, length), to(own_address()));
      }
      ASSERT_EQ(link_->send(batch.get(), flow), n);
      done += n;
    }
  }
  // Lets time pass and does what a progress thread does.
  void pass_time(TimeNs ns) {
    g_now += ns;
    link_->receive(sink_, 64);
  }
  std::vector<std::uint32_t> psns_sent() const {
    std::vector<std::uint32_t> psns;
    for (const auto& s : recorder_->sent) psns.push_back(s.psn);
    return psns;
  }
  std::map<std::uint32_t, int> copies_by_psn() const {
    std::map<std::uint32_t, int> copies;
    for (const auto& s : recorder_->sent) ++copies[s.psn];
    return copies;
  }
  // Returns the fate of the flow's next packet with this seed.
  static fault::Fate fate_of(fault::Flow& flow, fault::Settings settings, std::uint32_t psn) {
    settings.seed = kSeed;
    return flow.judge(settings, {}, make_packet(Qpn(9), psn, 100)).fate;
  }

  DropCounters drops_;
  FaultCounters counters_;
  std::vector<FaultRule> rules_;
  std::vector<fault::ActiveRule> script_;
  std::map<std::uint64_t, RuleCounters> rule_counters_;
  Collector sink_;
  Recorder* recorder_;
  std::unique_ptr<FaultLink> link_;
};

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

TEST_F(FaultLinkTest, AFasterLineDoesNotWaitForTheOneBefore) {
  set_for_all({.bytes_per_second = 1'000});
  send(0, 50, kFlow, 96);
  set_for_all({.bytes_per_second = 100'000});
  send(100, 1, kFlow, 96);
  pass_time(1'000'000);
  ASSERT_EQ(recorder_->sent.size(), 1u);
  EXPECT_EQ(recorder_->sent.back().psn, 100u);
  set_for_all({});
  set_for(kFlow, {.bytes_per_second = 1'000});
  send(0, 50, kFlow, 96);
  set_for(kFlow, {.bytes_per_second = 100'000});
  send(101, 1, kFlow, 96);
  pass_time(1'000'000);
  ASSERT_EQ(recorder_->sent.size(), 2u);
  EXPECT_EQ(recorder_->sent.back().psn, 101u);
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

using Psns = std::vector<std::uint32_t>;

TEST_F(FaultLinkTest, ARuleLosesOnePacketOnce) {
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

TEST_F(FaultLinkTest, ARuleThatStaysGoesOnCounting) {
  set_script({"drop nth=3"});
  send(0, 2);
  set_script({"drop nth=3", "duplicate nth=2"});
  send(2, 3);
  EXPECT_EQ(psns_sent(), (Psns{0, 1, 3, 3, 4}));
  EXPECT_EQ(rule_counters_[1].matched(), 5u);
  EXPECT_EQ(rule_counters_[2].matched(), 3u);
}

TEST_F(FaultLinkTest, RulesAndChancesTogether) {
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

TEST_F(FaultLinkTest, ADelayedPacketIsOvertakenOrNot) {
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

TEST_F(FaultLinkTest, APacketGoesBehindTheNextOnes) {
  set_script({"reorder=2 nth=2"});
  send(0, 3);
  EXPECT_EQ(psns_sent(), (Psns{0, 2}));
  send(0, 1, kOtherFlow);  // the first packet of another queue pair
  send(3, 2);
  EXPECT_EQ(psns_sent(), (Psns{0, 2, 0, 3, 1, 4}));
}

TEST_F(FaultLinkTest, APacketThatNobodyOvertakesGoesAfterAWhile) {
  set_script({"reorder=2 nth=2"});
  send(0, 2);
  pass_time(FaultLink::kOvertakenMost - 1);
  EXPECT_EQ(psns_sent(), (Psns{0}));
  pass_time(1);
  EXPECT_EQ(psns_sent(), (Psns{0, 1}));
  send(2, 2);
  EXPECT_EQ(psns_sent(), (Psns{0, 1, 2, 3}));
}

TEST_F(FaultLinkTest, WhatIsHeldGoesWhenItsTimeHasCome) {
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
TEST_F(FaultLinkTest, ALineOfASpeedCarriesOneAfterTheOther) {
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

TEST_F(FaultLinkTest, ARequestIsMarkedForItsReceiver) {
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
}  // namespace verbena::link::test
