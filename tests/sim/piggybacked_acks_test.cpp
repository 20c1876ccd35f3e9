// SPDX-License-Identifier: BSD-2-Clause
// Acknowledgements that are piggybacked on data count and work like those that come alone.
#include "steps.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::sim {
namespace {

class PiggybackedAcks : public Scene {
 public:
  explicit PiggybackedAcks(const PeerOptions& options = {}) : Scene(options) {
    pair.world.faults().piggybacked_ack = 1'000'000;
  }
  // The left sends, and the right answers as soon as it has received, so that the acknowledgement
  // travels with the answer.
  void exchange(std::uint64_t id) {
    ASSERT_TRUE(right.receive(id));
    ASSERT_TRUE(left.receive(id));
    left.post(left.send(id, 100));
    ASSERT_TRUE(pair.run_until([&] {
      right.reap();
      return right.receives.size() == id;
    }));
    right.post(right.send(id, 100));
    ASSERT_TRUE(pair.run_until([&] {
      left.reap();
      right.reap();
      return left.sends.size() == id && right.sends.size() == id && left.receives.size() == id;
    }));
  }
  // Adds a forged acknowledgement to a packet of the right.
  void inject(wire::PiggybackedAck ack) {
    bool is_done = false;
    pair.world.filter = [&, ack](const Node& from, std::span<const std::uint8_t>) {
      if (is_done || from.index() != 1) return true;
      is_done = true;
      Load load = pair.world.seen();
      load.piggybacked_ack = ack;
      pair.world.inject(0, from.address(), load);
      return false;
    };
    ASSERT_TRUE(left.receive(1));
    right.post(right.send(1, 100));
    ASSERT_TRUE(pair.run_until([&] {
      right.reap();
      return right.sends.size() == 1;
    }));
    pair.world.filter = nullptr;
    EXPECT_TRUE(is_done);
  }
  std::uint64_t dropped(DropReason why) { return left.node().device().counters().drops.read(why); }
};

TEST(PiggybackedAcks, CountAsPackets) {
  PiggybackedAcks s;
  for (std::uint64_t id = 1; id <= 20; ++id) s.exchange(id);
  EXPECT_GT(s.pair.world.piggybacked_acks(), 5u);
  EXPECT_THAT(statuses(s.left.sends), testing::Each(Status::kSuccess));
  EXPECT_THAT(statuses(s.right.sends), testing::Each(Status::kSuccess));
  // Each side has sent twenty requests and twenty acknowledgements.
  const auto& near = s.left.qp().endpoint().counters;
  const auto& far = s.right.qp().endpoint().counters;
  EXPECT_EQ(near.packets_received.read(), far.packets_sent.read());
  EXPECT_EQ(far.packets_received.read(), near.packets_sent.read());
  EXPECT_GE(far.packets_sent.read(), 40u);
  const auto& left = s.left.node().device().counters();
  const auto& right = s.right.node().device().counters();
  EXPECT_EQ(left.received.packets.read(), right.sent.packets());
  EXPECT_EQ(left.received.bytes.read(), right.sent.bytes());
  EXPECT_EQ(left.drops.total() + right.drops.total(), 0u);
  s.expect_unharmed();
}

TEST(PiggybackedAcks, ThatAreLostComeAgain) {
  PiggybackedAcks s;
  std::size_t lost = 0;
  s.pair.world.filter = [&](const Node&, std::span<const std::uint8_t>) {
    const bool loses =
        s.pair.world.seen().piggybacked_ack && s.pair.world.piggybacked_acks() % 3 == 0;
    lost += loses ? 1 : 0;
    return !loses;
  };
  for (std::uint64_t id = 1; id <= 20; ++id) s.exchange(id);
  EXPECT_GT(lost, 0u);
  EXPECT_THAT(statuses(s.left.sends), testing::Each(Status::kSuccess));
  EXPECT_THAT(statuses(s.right.sends), testing::Each(Status::kSuccess));
  s.pair.world.filter = nullptr;
  s.expect_unharmed();
}

TEST(PiggybackedAcks, OfWhatWasNeverSentAreDropped) {
  PiggybackedAcks s;
  s.inject({wire::Aeth::ack(wire::kCreditsUnlimited, 5), s.left.qp().requester().next_psn() + 5});
  EXPECT_EQ(s.dropped(DropReason::kGhostAck), 1u);
  ASSERT_EQ(statuses(s.right.sends), std::vector{Status::kSuccess});  // the data was taken
  s.expect_unharmed();
}

TEST(PiggybackedAcks, WithAReservedSyndromeAreDropped) {
  PiggybackedAcks s;
  s.inject({{0x80, 0}, s.left.qp().requester().next_psn() - 1});
  EXPECT_EQ(s.dropped(DropReason::kBadSyndrome), 1u);
  s.expect_unharmed();
}

TEST(PiggybackedAcks, ThatRefuseEndTheRequest) {
  PiggybackedAcks s;
  // Loses the left's request, so that the right never gets it.
  s.pair.world.filter = [](const Node& from, std::span<const std::uint8_t>) {
    return from.index() != 0;
  };
  ASSERT_TRUE(s.right.receive(1));
  const Psn refused = s.left.qp().requester().next_psn();
  s.left.post(s.left.send(1, 100));
  s.inject({wire::Aeth::nak(wire::NakCode::kRemoteAccess, 0), refused});
  s.left.reap();
  EXPECT_EQ(statuses(s.left.sends), std::vector{Status::kRemoteAccess});
  EXPECT_EQ(s.left.state(), qp::State::kError);
  s.expect_unharmed();
}

TEST(PiggybackedAcks, AreOfReliableConnectionsOnly) {
  PeerOptions options;
  options.transport = Transport::kUc;
  PiggybackedAcks s(options);
  s.inject({wire::Aeth::ack(wire::kCreditsUnlimited, 0), Psn(0)});
  s.pair.run(1'000'000);
  EXPECT_EQ(s.dropped(DropReason::kWrongTransport), 1u);
  s.expect_unharmed();
}

}  // namespace
}  // namespace verbena::sim
