// SPDX-License-Identifier: BSD-2-Clause
// Connections through a network and among programs that misbehave: each message lost in turn,
// everything repeated, each field of each message corrupted, a side that dies in every state, a
// listener that never answers, and random mixtures from a seed. In each case both sides come to an
// end in bounded time, and nothing remains.
//
// A failing seed repeats with --gtest_filter='*Seeds*' and VERBENA_SEED=<number>.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "cm_scene.hpp"

namespace verbena::cm::sim {
namespace {

using enum RdmaEventType;

struct LostMessage {
  const char* name;
  std::uint16_t attribute;
  PortSpace space;
};

class LossTest : public testing::TestWithParam<LostMessage> {};
INSTANTIATE_TEST_SUITE_P(
    Each, LossTest,
    testing::Values(LostMessage{"Req", Req::kAttribute, PortSpace::kTcp},
                    LostMessage{"Rep", Rep::kAttribute, PortSpace::kTcp},
                    LostMessage{"Rtu", Rtu::kAttribute, PortSpace::kTcp},
                    LostMessage{"Dreq", Dreq::kAttribute, PortSpace::kTcp},
                    LostMessage{"Drep", Drep::kAttribute, PortSpace::kTcp},
                    LostMessage{"SidrReq", SidrReq::kAttribute, PortSpace::kUdp},
                    LostMessage{"SidrRep", SidrRep::kAttribute, PortSpace::kUdp}),
    [](const auto& i) { return i.param.name; });

TEST_P(LossTest, TheFirstFewAreLostAndTheConnectionIsMadeAllTheSame) {
  for (int lost = 1; lost <= 14; ++lost) {
    Scene s(1, GetParam().space);
    int left = lost;
    s.world.network = [&](const Flight& f) -> std::vector<Flight> {
      if (attribute_of(f) == GetParam().attribute && left > 0) {
        --left;
        return {};
      }
      return {f};
    };
    ASSERT_TRUE(s.finish()) << lost;
    EXPECT_TRUE(s.client.connected) << lost;
    // A server that waits for an RTU takes the DREQ for one. It learns of the end in any case.
    if (GetParam().space == PortSpace::kTcp) {
      while (s.server.seen[kDisconnected] == 0) {
        ASSERT_TRUE(s.step(s.world.now + kLongest)) << lost;
      }
    }
    EXPECT_EQ(s.server.seen[kConnectRequest], 1) << lost;
    s.expect_nothing_remains();
  }
}

TEST_P(LossTest, AllAreLostAndEachSideComesToAnEnd) {
  Scene s(2, GetParam().space);
  s.world.network = [&](const Flight& f) -> std::vector<Flight> {
    if (attribute_of(f) == GetParam().attribute) return {};
    return {f};
  };
  EXPECT_TRUE(s.finish());
  s.expect_nothing_remains();
}

TEST(DuplicateTest, EverythingThreeTimesAndLateChangesNothing) {
  for (const PortSpace space : {PortSpace::kTcp, PortSpace::kUdp}) {
    Scene s(3, space);
    s.world.network = [](const Flight& f) {
      Flight late = f;
      late.delay = 30 * kMillisecond;
      Flight very_late = f;
      very_late.delay = 3 * kSecond;
      return std::vector<Flight>{f, f, late, very_late};
    };
    ASSERT_TRUE(s.finish());
    EXPECT_TRUE(s.client.connected);
    while (s.step(kNever)) {
    }
    s.server.run(s.world.now);
    EXPECT_EQ(s.client.seen[kConnectResponse], space == PortSpace::kTcp ? 1 : 0);
    EXPECT_EQ(s.server.seen[kEstablished], space == PortSpace::kTcp ? 1 : 0);
    // A REQ that arrives after its connection has ended looks like a new one. It ends with a REJ.
    EXPECT_LE(s.server.seen[kConnectRequest], space == PortSpace::kTcp ? 2 : 1);
    s.expect_nothing_remains();
  }
}

TEST(NeverAcceptTest, MraKeepsTheClientPatientAndThenItGivesUp) {
  Scene s(4);
  s.server.accepts = false;
  const TimeNs start = s.world.now;
  ASSERT_TRUE(s.finish());
  EXPECT_EQ(s.client.seen[kUnreachable], 1);
  EXPECT_EQ(s.client.last_status, -ETIMEDOUT);
  EXPECT_GT(s.world.now - start, 60 * kSecond);
  // The client sends a REJ when it gives up, so the server's later accept fails.
  ASSERT_EQ(s.server.held.size(), 1u);
  while (s.step(s.world.now + kSecond)) {
  }
  ConnParam param;
  EXPECT_EQ(s.b.cm.accept(s.world.now, kChannel, *s.server.held.begin(), 1, &param, Ece{}), EINVAL);
  s.expect_nothing_remains();
}

TEST(NeverAcceptTest, TheServerMayStillAcceptAfterAMinute) {
  Scene s(5);
  s.server.accepts = false;
  while (s.world.now < 60 * kSecond && s.step(60 * kSecond)) {
  }
  s.world.now = 60 * kSecond;
  ASSERT_EQ(s.server.held.size(), 1u);
  s.server.accept(s.world.now, *s.server.held.begin());
  ASSERT_TRUE(s.finish());
  EXPECT_TRUE(s.client.connected);
  s.expect_nothing_remains();
}

TEST(NeverConfirmTest, AClientThatNeverConfirmsEndsTheServersWait) {
  Scene s(6);
  s.client.confirms = false;
  while (s.server.seen[kUnreachable] == 0) {
    ASSERT_TRUE(s.step(s.world.now + kLongest));
  }
  s.expect_nothing_remains();
}

// A kernel closes the channel of a process that was killed. Here one side dies after `steps` steps
// of the exchange.
class DeathTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Sides, DeathTest, testing::Bool(),
                         [](const auto& i) { return i.param ? "Server" : "Client"; });

TEST_P(DeathTest, AProcessDiesAtEveryStepAndTheOtherIsTold) {
  for (int steps = 0; steps < 12; ++steps) {
    Scene s(7);
    s.client.hangs_up = false;
    for (int i = 0; i < steps; ++i) s.step(s.world.now + kMillisecond);
    Host& dies = GetParam() ? s.b : s.a;
    dies.cm.close_channel(s.world.now, kChannel);
    EXPECT_EQ(dies.cm.ids(), 0u) << steps;
    const TimeNs end = s.world.now + 5 * kSecond;
    do {
      if (GetParam()) s.client.run(s.world.now);
      if (!GetParam()) s.server.run(s.world.now);
    } while (s.world.step(end));
    if (GetParam()) {
      EXPECT_TRUE(s.client.finished) << steps;
    } else if (s.server.seen[kConnectRequest] > 0) {
      EXPECT_EQ(s.server.seen[kDisconnected] + s.server.seen[kRejected], 1) << steps;
    }
    EXPECT_TRUE(s.world.is_consistent()) << steps;
    EXPECT_EQ(dies.cm.agent().size(), 0u) << steps;
  }
}

TEST_P(DeathTest, AHostVanishesAtEveryStepAndTheOtherRunsIntoItsTimeout) {
  for (int steps = 0; steps < 12; ++steps) {
    Scene s(8);
    for (int i = 0; i < steps; ++i) s.step(s.world.now + kMillisecond);
    if (s.client.finished) break;
    Host& dies = GetParam() ? s.b : s.a;
    dies.dead = true;
    Host& stays = GetParam() ? s.a : s.b;
    const TimeNs end = s.world.now + kLongest;
    do {
      if (GetParam()) s.client.run(s.world.now);
      if (!GetParam()) s.server.run(s.world.now);
    } while (s.world.step(end));
    EXPECT_TRUE(s.client.finished || !GetParam()) << steps;
    stays.cm.close_channel(s.world.now, kChannel);
    while (s.world.step()) {
    }
    EXPECT_EQ(stays.cm.agent().size(), 0u) << steps;
    EXPECT_TRUE(stays.cm.is_consistent()) << steps;
  }
}

TEST(StaleTest, AQueuePairThatAsksAnewEndsItsOldConnection) {
  Scene s(9);
  s.client.hangs_up = false;
  while (!s.client.connected) ASSERT_TRUE(s.step(kNever));
  while (s.server.seen[kEstablished] == 0) ASSERT_TRUE(s.step(kNever));
  // The client's host restarts and forgets everything; the same queue pair number connects again.
  s.a.dead = true;
  s.a.cm.close_channel(s.world.now, kChannel);
  (void)s.a.cm.take_mads();
  for (int i = 0; i < 40; ++i) {
    s.world.collect();
    s.a.cm.handle_timeout(s.world.now += kSecond);
  }
  s.a.dead = false;
  Client again(s.a, 77);
  again.connect(s.b.ports.default_port_address());
  while (!again.finished) {
    again.run(s.world.now);
    s.server.run(s.world.now);
    ASSERT_TRUE(s.world.step(s.world.now + kLongest));
  }
  EXPECT_EQ(again.seen[kRejected], 1);
  EXPECT_EQ(again.last_status, 10);
  while (s.server.seen[kDisconnected] == 0) {
    s.server.run(s.world.now);
    ASSERT_TRUE(s.world.step(s.world.now + kLongest));
  }
  Client third(s.a, 78);
  third.connect(s.b.ports.default_port_address());
  while (!third.finished) {
    third.run(s.world.now);
    s.server.run(s.world.now);
    ASSERT_TRUE(s.world.step(s.world.now + kLongest));
  }
  EXPECT_TRUE(third.connected);
}

TEST(StaleTest, BothHangUpAtOnce) {
  Scene s(10);
  s.client.hangs_up = false;
  while (s.server.seen[kEstablished] == 0) ASSERT_TRUE(s.step(kNever));
  s.a.cm.disconnect(s.world.now, kChannel, s.client.id);
  s.b.cm.disconnect(s.world.now, kChannel, s.server.last_request.id);
  ASSERT_TRUE(s.finish());
  while (s.server.seen[kDisconnected] == 0) ASSERT_TRUE(s.step(kNever));
  EXPECT_LT(s.world.now, 3 * kSecond);
  s.expect_nothing_remains();
}

// All bits of every field of every message are inverted. The exchange ends in bounded time, in one
// way or another. (The ICRC would catch such damage, but not an error in the peer's software.)
template <typename M>
void corrupt_each_field(PortSpace space, bool accepts = true, bool rejects = false) {
  for (const Field& f : fields_of<M>()) {
    for (const Turned turned : kEachTurn) {
      for (const bool always : {false, true}) {
        Scene s(11, space);
        s.server.accepts = accepts;
        s.server.rejects = rejects;
        bool done = false;
        s.world.network = [&](const Flight& flight) {
          Flight copy = flight;
          if (attribute_of(flight) != M::kAttribute || (done && !always)) return std::vector{copy};
          done = true;
          corrupt(copy.mad.bytes, f, turned);
          return std::vector{copy};
        };
        EXPECT_TRUE(s.finish()) << f.name << " " << static_cast<int>(turned) << " " << always;
        EXPECT_TRUE(done) << "no such message";
        EXPECT_TRUE(s.world.is_consistent()) << f.name;
        s.expect_nothing_remains();
      }
    }
  }
}

TEST(CorruptTest, Req) { corrupt_each_field<Req>(PortSpace::kTcp); }
TEST(CorruptTest, Rep) { corrupt_each_field<Rep>(PortSpace::kTcp); }
TEST(CorruptTest, Rtu) { corrupt_each_field<Rtu>(PortSpace::kTcp); }
TEST(CorruptTest, Dreq) { corrupt_each_field<Dreq>(PortSpace::kTcp); }
TEST(CorruptTest, Drep) { corrupt_each_field<Drep>(PortSpace::kTcp); }
TEST(CorruptTest, Rej) { corrupt_each_field<Rej>(PortSpace::kTcp, false, true); }
TEST(CorruptTest, Mra) { corrupt_each_field<Mra>(PortSpace::kTcp, false); }
TEST(CorruptTest, SidrReq) { corrupt_each_field<SidrReq>(PortSpace::kUdp); }
TEST(CorruptTest, SidrRep) { corrupt_each_field<SidrRep>(PortSpace::kUdp); }

TEST(CorruptTest, MadHeader) {
  for (std::size_t bit = 0; bit < kMadHeaderSize * 8; ++bit) {
    Scene s(12);
    int left = 5;
    s.world.network = [&](const Flight& flight) {
      Flight copy = flight;
      if (left-- > 0) {
        copy.mad.bytes[bit / 8] =
            static_cast<std::uint8_t>(copy.mad.bytes[bit / 8] ^ (0x80u >> bit % 8));
      }
      return std::vector{copy};
    };
    EXPECT_TRUE(s.finish()) << bit;
    s.expect_nothing_remains();
  }
}

// Plays many clients over a network with all faults at random. Each seed turns some faults off.
void run_seed(std::uint64_t seed) {
  World world(seed);
  Random dice(seed ^ 0x5eed);
  const auto share = [&](std::uint32_t most) {
    return dice.chance(400'000) ? 0u : static_cast<std::uint32_t>(dice.below(most));
  };
  const std::uint32_t loss = share(300'000);
  const std::uint32_t twice = share(300'000);
  const std::uint32_t slow = share(300'000);
  const std::uint32_t flip = share(100'000);
  world.network = [&](const Flight& f) {
    std::vector<Flight> copies;
    if (dice.chance(loss)) return copies;
    copies.push_back(f);
    if (dice.chance(twice)) copies.push_back(f);
    for (Flight& copy : copies) {
      if (dice.chance(slow)) copy.delay = dice.below(4 * kSecond);
      if (dice.chance(flip)) copy.mad.bytes[dice.below(kMadSize)] ^= 1u << dice.below(8);
    }
    return copies;
  };
  Host& a = world.add_host();
  Host& b = world.add_host();
  Server server(b, kChannel);
  std::vector<std::unique_ptr<Client>> clients;
  std::set<std::size_t> killed;
  for (ChannelId i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<Client>(a, 100 + i));
    clients.back()->connect(b.ports.default_port_address(), 0x4000 + static_cast<std::uint32_t>(i));
  }
  const TimeNs end = world.now + kLongest;
  do {
    for (std::size_t i = 0; i < clients.size(); ++i) {
      if (killed.contains(i)) continue;
      if (dice.chance(2'000)) {
        a.cm.close_channel(world.now, 100 + i);
        killed.insert(i);
      } else {
        clients[i]->run(world.now);
      }
    }
    server.run(world.now);
    ASSERT_TRUE(world.is_consistent()) << "VERBENA_SEED=" << seed;
  } while (world.step(end));
  for (std::size_t i = 0; i < clients.size(); ++i) {
    if (!killed.contains(i)) clients[i]->run(world.now);
    EXPECT_TRUE(killed.contains(i) || clients[i]->finished)
        << "client " << i << ", VERBENA_SEED=" << seed;
  }
  world.network = nullptr;
  b.cm.close_channel(world.now, kChannel);
  for (ChannelId i = 0; i < 20; ++i) a.cm.close_channel(world.now, 100 + i);
  while (world.step()) {
  }
  EXPECT_EQ(a.cm.agent().size() + b.cm.agent().size(), 0u) << "VERBENA_SEED=" << seed;
}

TEST(RandomTest, Seeds) {
  if (const char* seed = std::getenv("VERBENA_SEED")) {
    run_seed(std::strtoull(seed, nullptr, 0));
    return;
  }
  for (std::uint64_t seed = 1; seed <= 150; ++seed) run_seed(seed);
}

}  // namespace
}  // namespace verbena::cm::sim
