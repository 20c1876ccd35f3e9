// SPDX-License-Identifier: BSD-2-Clause
// Rules at work: each packet has the same fate, however its sender goes back and repeats.
#include "verbena/fault/script.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "verbena/fault/flow.hpp"
#include "verbena/wire/aeth.hpp"
#include "verbena/wire/bth.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::fault::script {
namespace {

using wire::Opcode;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint32_t kMtu = 1024;
const wire::Origin kOrigin{1, 1, Psn(0xfffff0), Psn(0x123456), kMtu};

// One queue pair that sends, and the rules for its packets.
class ScriptTest : public ::testing::Test {
 protected:
  void add(std::string_view line, std::uint64_t seed = 5) {
    auto rule = parse_rule(line);
    ASSERT_TRUE(rule.ok()) << rule.error();
    rules_.push_back(activate(next_id_++, std::move(*rule), seed, kSince));
    counters_.emplace_back();
    for (std::size_t i = 0; i < rules_.size(); ++i) rules_[i].counters = &counters_[i];
  }

  Verdict send(Opcode opcode, Psn psn, std::uint8_t nak_syndrome = 0, std::uint32_t length = 0) {
    Bytes bytes(64);
    wire::PacketHeaders headers;
    headers.bth.dest_qp = Qpn(0x4001);
    headers.bth.psn = psn;
    headers.aeth.syndrome = nak_syndrome;
    headers.reth.length = length;
    wire::write_headers(static_cast<std::uint8_t>(opcode), headers, bytes.data());
    const PacketName name = flow_.name(kOrigin, bytes);
    Described described = describe(name, bytes, kMtu);
    described.continues = continues_;
    described.place = 1;
    described.qp = Qpn(0x8001);
    described.now = now_;
    return script_.judge(rules_, described);
  }
  Verdict request(std::uint32_t number, Opcode opcode = Opcode::kRcSendOnly) {
    return send(opcode, kOrigin.first_request + number);
  }
  // A request for so many packets of a READ, which may have been begun by another request.
  Verdict read(std::uint32_t number, std::uint32_t packets, bool continues = false) {
    continues_ = continues;
    return send(Opcode::kRcReadRequest, kOrigin.first_request + number, 0, packets * kMtu);
  }
  Verdict answer(std::uint32_t number, wire::Aeth aeth) {
    return send(Opcode::kRcAcknowledge, kOrigin.first_response + number, aeth.syndrome);
  }
  // Returns which of `count` requests are lost if each is sent once.
  std::set<std::uint32_t> lost_of(std::uint32_t count) {
    std::set<std::uint32_t> lost;
    for (std::uint32_t n = 0; n < count; ++n) {
      if (request(n).is_lost) lost.insert(n);
    }
    return lost;
  }

  static constexpr TimeNs kSince = 1'000'000'000;
  bool continues_ = false;
  TimeNs now_ = kSince;
  Flow flow_{77};
  Script script_;
  std::vector<ActiveRule> rules_;
  std::deque<RuleCounters> counters_;
  std::uint64_t next_id_ = 1;
};

TEST_F(ScriptTest, CountsPackets) {
  add("drop nth=3");
  EXPECT_EQ(lost_of(20), (std::set<std::uint32_t>{2}));
  EXPECT_EQ(counters_[0].matched(), 20u);
  EXPECT_EQ(counters_[0].fired(), 1u);
}

TEST_F(ScriptTest, TakesTheFirstOrEveryOne) {
  add("drop first=2");
  EXPECT_EQ(lost_of(8), (std::set<std::uint32_t>{0, 1}));
  script_.begin_anew();
  rules_.clear();
  add("drop every=3");
  EXPECT_EQ(lost_of(10), (std::set<std::uint32_t>{2, 5, 8}));
}

TEST_F(ScriptTest, CountsWhatTheConditionsName) {
  add("drop opcode=WRITE nth=2");
  EXPECT_TRUE(request(0, Opcode::kRcSendOnly).arrives());
  EXPECT_TRUE(request(1, Opcode::kRcWriteOnly).arrives());
  EXPECT_TRUE(request(2, Opcode::kRcSendOnly).arrives());
  EXPECT_TRUE(request(3, Opcode::kRcWriteFirst).is_lost);
  EXPECT_EQ(counters_[0].matched(), 2u);
}

TEST_F(ScriptTest, PsnsCountFromTheFirstOne) {
  add("drop psn=15-17");  // the PSN wraps among these
  EXPECT_EQ(lost_of(30), (std::set<std::uint32_t>{15, 16, 17}));
}

TEST_F(ScriptTest, ARepetitionOfWhatWasLostIsAnotherAttempt) {
  add("drop nth=2");
  add("drop psn=4 attempt=any");
  EXPECT_EQ(lost_of(6), (std::set<std::uint32_t>{1, 4}));
  for (int round = 0; round < 3; ++round) {
    for (std::uint32_t n = 1; n < 6; ++n) EXPECT_EQ(request(n).is_lost, n == 4) << n;
  }
  EXPECT_EQ(counters_[0].fired(), 1u);
  EXPECT_EQ(counters_[1].fired(), 4u);
}

TEST_F(ScriptTest, OneAttemptAmongSeveral) {
  add("drop psn=1");
  add("drop psn=1 attempt=3");
  add("drop psn=1 attempt=2");
  EXPECT_TRUE(request(0).arrives());
  EXPECT_TRUE(request(1).is_lost);
  EXPECT_TRUE(request(1).is_lost);
  EXPECT_TRUE(request(1).is_lost);
  EXPECT_TRUE(request(1).arrives());
  EXPECT_TRUE(request(1).arrives());
}

TEST_F(ScriptTest, WindowsAndNeedlessRepetitionsChangeNothing) {
  const auto play = [this](std::uint32_t window, std::uint32_t needless) {
    script_.begin_anew();
    flow_ = Flow(77);
    std::map<std::uint32_t, int> lost;
    for (std::uint32_t expected = 0; expected < 600;) {
      const std::uint32_t end = std::min(expected + window, 600u);
      for (std::uint32_t n = expected - std::min(expected, needless); n < end; ++n) {
        const bool is_lost = request(n).is_lost;
        lost[n] += is_lost;
        if (!is_lost && n == expected) ++expected;
      }
    }
    return lost;
  };
  add("drop every=7");
  add("drop percent=10 attempt=any");
  add("drop percent=8 burst=3");
  const auto one_at_a_time = play(1, 0);
  for (const auto& [window, needless] : {std::pair{2u, 0u}, {7u, 3u}, {64u, 0u}, {600u, 5u}}) {
    EXPECT_EQ(play(window, needless), one_at_a_time) << window;
  }
}

TEST_F(ScriptTest, ANewRuleLeavesTheOthersCounts) {
  add("drop nth=5");
  add("drop percent=20");
  for (std::uint32_t n = 0; n < 3; ++n) request(n);
  Script alone = script_;
  std::set<std::uint32_t> with_it;
  std::set<std::uint32_t> without;
  const std::vector<ActiveRule> before = rules_;
  for (const bool has_more : {false, true}) {
    script_ = alone;
    if (has_more) add("delay=1ms every=2");
    for (std::uint32_t n = 3; n < 100; ++n) {
      if (request(n).is_lost) (has_more ? with_it : without).insert(n);
    }
  }
  EXPECT_EQ(with_it, without);
  EXPECT_TRUE(with_it.contains(4));
}

TEST_F(ScriptTest, MessagesAreCountedAsTheyBegin) {
  add("drop msg=2 opcode=SEND_MIDDLE");
  EXPECT_TRUE(request(0, Opcode::kRcSendFirst).arrives());
  EXPECT_TRUE(request(1, Opcode::kRcSendMiddle).arrives());
  EXPECT_TRUE(request(2, Opcode::kRcSendLast).arrives());
  EXPECT_TRUE(request(3, Opcode::kRcSendFirst).arrives());
  EXPECT_TRUE(request(4, Opcode::kRcSendMiddle).is_lost);
  EXPECT_TRUE(request(5, Opcode::kRcSendMiddle).is_lost);
  EXPECT_TRUE(request(6, Opcode::kRcSendLast).arrives());
  EXPECT_TRUE(request(7, Opcode::kRcWriteOnly).arrives());
}

// The sender has got a part of the data, and asks for the rest.
TEST_F(ScriptTest, AReadThatIsRepeatedFromItsMiddleIsNotCounted) {
  add("delay=1ms nth=2");
  add("delay=1us msg=2");
  EXPECT_EQ(read(0, 3).delay_ns, 0u);
  EXPECT_EQ(read(1, 2).delay_ns, 0u);
  EXPECT_EQ(read(2, 1).delay_ns, 0u);
  EXPECT_EQ(read(3, 3).delay_ns, 1'001'000u);
  EXPECT_EQ(counters_[0].matched(), 2u);
  EXPECT_EQ(request(6).delay_ns, 0u);
  EXPECT_EQ(counters_[0].matched(), 3u);
}

// How many requests ask for the data depends on the path.
TEST_F(ScriptTest, AReadIsOneMessageHoweverManyRequestsItTakes) {
  add("delay=1us msg=2");
  add("delay=1ms nth=2 unit=message");
  add("complete=GENERAL_ERR nth=2");
  for (std::uint32_t chunk = 0; chunk < 4; ++chunk) {
    const Verdict first = read(3 * chunk, 3, chunk != 0);
    EXPECT_EQ(first.delay_ns + first.mark, 0u) << chunk;
  }
  EXPECT_EQ(read(12, 3).mark, wire::kStatusCodes + 21);
  const Verdict more = read(15, 1, true);
  EXPECT_EQ(more.mark, 0);
  EXPECT_EQ(more.delay_ns, 1'001'000u);
  EXPECT_EQ(counters_[2].matched(), 2u);
}

TEST_F(ScriptTest, AcknowledgementsByWhatTheySay) {
  using wire::Aeth;
  add("drop opcode=NAK");
  add("delay=1us opcode=ACK");
  add("duplicate opcode=RNR_NAK");
  EXPECT_EQ(answer(0, Aeth::ack(3, 1)).delay_ns, 1000u);
  EXPECT_TRUE(answer(1, Aeth::nak(wire::NakCode::kPsnSequence, 1)).is_lost);
  EXPECT_TRUE(answer(1, Aeth::rnr_nak(12, 1)).is_doubled);
  EXPECT_TRUE(request(0).arrives());
  EXPECT_EQ(counters_[0].matched() + counters_[1].matched() + counters_[2].matched(), 3u);
}

TEST_F(ScriptTest, OneQueuePairAndOneDirection) {
  add("drop qp=anyone:2");
  add("drop qp=0x8002");
  add("drop direction=response");
  EXPECT_TRUE(request(0).arrives());
  add("delay=1us qp=anyone:1");
  add("delay=2us qp=0x8001");
  EXPECT_EQ(request(1).delay_ns, 3000u);
}

TEST_F(ScriptTest, Times) {
  add("drop after=10ms until=20ms");
  add("hold=15ms");
  EXPECT_FALSE(request(0).is_lost);
  now_ = kSince + 10'000'000;
  const Verdict second = request(1);
  EXPECT_TRUE(second.is_lost);
  EXPECT_EQ(second.hold_until, kSince + 15'000'000);
  now_ = kSince + 20'000'000;
  EXPECT_FALSE(request(2).is_lost);
}

TEST_F(ScriptTest, ChancesAreAsAskedForAndFollowTheSeed) {
  add("drop percent=10", 1);
  const auto lost = lost_of(5000);
  EXPECT_NEAR(static_cast<double>(lost.size()), 500.0, 100.0);
  rules_.clear();
  script_.begin_anew();
  add("drop percent=10", 1);
  EXPECT_EQ(lost_of(5000), lost);
  rules_.clear();
  script_.begin_anew();
  add("drop percent=10", 2);
  EXPECT_NE(lost_of(5000), lost);
}

TEST_F(ScriptTest, BurstsAreAsLongAsAskedForOnAverage) {
  add("drop percent=10 burst=5");
  const auto lost = lost_of(40'000);
  std::size_t bursts = 0;
  for (const std::uint32_t n : lost) bursts += n == 0 || !lost.contains(n - 1);
  EXPECT_NEAR(static_cast<double>(lost.size()), 4000.0, 600.0);
  EXPECT_NEAR(static_cast<double>(lost.size()) / static_cast<double>(bursts), 5.0, 0.8);
}

TEST_F(ScriptTest, SeveralRulesOnOnePacket) {
  add("delay=1ms nth=1");
  add("duplicate nth=1");
  add("delay=2ms nth=1 order=keep");
  add("nak=access nth=1");
  add("corrupt=payload nth=1");
  const Verdict verdict = request(0);
  EXPECT_EQ(verdict.delay_ns, 3'000'000u);
  EXPECT_TRUE(verdict.is_doubled && verdict.keeps_order);
  EXPECT_EQ(verdict.mark, static_cast<std::uint8_t>(Nak::kAccess));
  EXPECT_EQ(verdict.changes, std::vector<Field>{Field::kPayload});
}

TEST(Change, TouchesOneField) {
  Bytes before(64);
  wire::PacketHeaders headers;
  headers.bth.psn = Psn(7);
  headers.bth.ack_request = true;
  wire::write_headers(static_cast<std::uint8_t>(Opcode::kRcWriteOnly), headers, before.data());
  const auto changed = [&](Field field) {
    Bytes after = before;
    change(field, after);
    return after;
  };
  EXPECT_EQ(changed(Field::kIcrc), before);
  EXPECT_EQ(changed(Field::kQkey), before);  // a WRITE has no Q_Key
  const wire::Bth psn = wire::Bth::read_from(changed(Field::kPsn).data());
  EXPECT_EQ(psn.psn.distance_from(Psn(7)), 1 << 22);
  EXPECT_TRUE(psn.ack_request);
  EXPECT_FALSE(wire::row_of(changed(Field::kOpcode)[0]).valid);
  EXPECT_EQ(wire::Bth::read_from(changed(Field::kPkey).data()).pkey, 0xfffe);
  EXPECT_EQ(wire::Reth::read_from(changed(Field::kRkey).data() + 12).rkey, 1u);
  EXPECT_EQ(wire::Reth::read_from(changed(Field::kLength).data() + 12).length, 1u);
  EXPECT_EQ(changed(Field::kPayload)[28], 1);
}

// Each message has three packets.
TEST_F(ScriptTest, CountsMessages) {
  const auto lost_of_messages = [this](std::uint32_t count) {
    std::set<std::uint32_t> lost;
    const Opcode places[] = {Opcode::kRcSendFirst, Opcode::kRcSendMiddle, Opcode::kRcSendLast};
    for (std::uint32_t n = 0; n < 3 * count; ++n) {
      if (request(n, places[n % 3]).is_lost) lost.insert(n);
    }
    return lost;
  };
  using Set = std::set<std::uint32_t>;
  const auto with = [&](std::string_view rule) {
    rules_.clear();
    counters_.clear();
    script_.begin_anew();
    flow_ = Flow(77);
    add(rule);
    return lost_of_messages(40);
  };
  EXPECT_EQ(with("drop nth=2 unit=message"), (Set{3, 4, 5}));
  EXPECT_EQ(with("drop opcode=SEND_LAST nth=2 unit=message"), (Set{5}));
  EXPECT_EQ(with("drop opcode=SEND_MIDDLE first=2 unit=message"), (Set{1, 4}));
  EXPECT_EQ(with("drop psn=4 every=1 unit=message"), (Set{4}));
  for (const char* rule :
       {"drop percent=30 unit=message", "drop percent=30 burst=3 unit=message"}) {
    const Set lost = with(rule);
    EXPECT_GT(lost.size(), 9u);
    EXPECT_LT(lost.size(), 90u);
    for (const std::uint32_t n : lost) {
      for (std::uint32_t other = n / 3 * 3; other < n / 3 * 3 + 3; ++other) {
        EXPECT_TRUE(lost.contains(other)) << rule << ": " << n << " without " << other;
      }
    }
  }
}

TEST_F(ScriptTest, NothingComesThroughACutLine) {
  add("cut nth=3 for=50ms");
  EXPECT_EQ(lost_of(5), (std::set<std::uint32_t>{2, 3, 4}));
  EXPECT_TRUE(request(0).is_lost);  // this one had arrived before the cut
  EXPECT_TRUE(request(2).is_lost);
  now_ += 50'000'000;
  EXPECT_FALSE(request(2).is_lost || request(0).is_lost || request(5).is_lost);
  EXPECT_EQ(counters_[0].fired(), 5u);
}

TEST_F(ScriptTest, ACutHasItsTimeAndItsDirection) {
  add("cut direction=response after=10ms until=20ms");
  EXPECT_FALSE(answer(0, wire::Aeth::ack(1, 1)).is_lost);
  now_ += 10'000'000;
  EXPECT_TRUE(answer(0, wire::Aeth::ack(1, 1)).is_lost);
  EXPECT_FALSE(request(0).is_lost);
  now_ += 10'000'000;
  EXPECT_FALSE(answer(0, wire::Aeth::ack(1, 1)).is_lost);
}

TEST_F(ScriptTest, WhatACutTookIsTheNextAttemptAfterIt) {
  add("cut until=10ms");
  add("drop nth=1 attempt=2");
  EXPECT_TRUE(request(0).is_lost);
  now_ += 10'000'000;
  EXPECT_TRUE(request(0).is_lost);
  EXPECT_FALSE(request(0).is_lost);
}

TEST_F(ScriptTest, CompletionsAreCountedByRequests) {
  add("complete=RETRY_EXC_ERR nth=2");
  EXPECT_EQ(request(0, Opcode::kRcSendFirst).mark, 0);
  EXPECT_EQ(request(1, Opcode::kRcSendLast).mark, 0);
  EXPECT_EQ(request(2, Opcode::kRcReadRequest).mark, wire::kStatusCodes + 12);
  add("complete=REM_ACCESS_ERR psn=3");
  EXPECT_EQ(request(3).mark, static_cast<std::uint8_t>(Nak::kAccess));
}

TEST_F(ScriptTest, ARequestThatCompletesDoesSoHoweverOftenItIsSent) {
  add("complete=RETRY_EXC_ERR nth=1");
  add("drop nth=1 attempt=2");
  const Verdict first = request(0);
  EXPECT_EQ(first.mark, wire::kStatusCodes + 12);
  EXPECT_TRUE(request(0).is_lost);
  EXPECT_EQ(request(0), first);
  EXPECT_EQ(request(1).mark, 0);
  EXPECT_EQ(counters_[0].fired(), 1u) << "the rule fires once";
}

TEST_F(ScriptTest, ALineOfASpeedIsForRepetitionsToo) {
  add("rate=10Mbit opcode=SEND");
  for (int time = 0; time < 2; ++time) {
    EXPECT_EQ(request(0).lines, (std::vector<Line>{{1, 1'250'000}}));
  }
  EXPECT_TRUE(request(1, Opcode::kRcWriteOnly).lines.empty());
}

}  // namespace
}  // namespace verbena::fault::script
