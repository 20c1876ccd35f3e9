// SPDX-License-Identifier: BSD-2-Clause
// Packets that arrive in one buffer (a run): the packets of one message are handled as one that
// stands for them, and nothing else about them differs.
#include <cstring>

#include "steps.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::sim {
namespace {

using Packet = std::vector<std::uint8_t>;

TEST(Runs, CountAsTheirPackets) {
  Scene s;
  s.pair.world.faults().run = 1'000'000;
  s.right.receive(7, 4096);
  s.left.post(s.left.send(1, 1299));
  s.run_until_sent(1);
  EXPECT_EQ(statuses(s.left.sends), std::vector{Status::kSuccess});
  ASSERT_EQ(statuses(s.right.receives), std::vector{Status::kSuccess});
  EXPECT_EQ(s.right.receives[0].byte_length, 1299u);
  EXPECT_EQ(s.pair.world.in_runs(), 6u);
  const auto& received = s.right.qp().endpoint().counters;
  EXPECT_EQ(received.packets_received.read(), 6u);
  EXPECT_EQ(received.bytes_received.read(), 1299u);
  const auto& port = s.right.node().device().counters();
  EXPECT_EQ(port.received.packets.read(), 6u);
  EXPECT_EQ(port.received.bytes.read(), 6 * 12 + 1300u);
  EXPECT_EQ(port.drops.total(), 0u);
  EXPECT_NO_THROW(
      expect_equal(s.right.inbox.bytes().first(1299), s.left.source.bytes().first(1299), "data"));
  s.expect_unharmed();
}

// Runs begin and end anywhere in a message, and its buffers do as well.
TEST(Runs, FillBuffersAcrossTheirPackets) {
  Scene s;
  s.pair.world.faults().run = 1'000'000;
  s.right.receive(1, 1000, 0);
  s.left.post(s.left.send(1, 1000));
  s.run_until_sent(1);
  s.left.post(s.left.write(2, 2000, s.right, 0));
  s.left.post(s.left.write(3, 999, s.right, 1));
  s.run_until_sent(3);
  EXPECT_NO_THROW(expect_equal(s.right.inbox.bytes().first(1000), s.left.source.bytes().first(1000),
                               "receive"));
  EXPECT_GT(s.pair.world.in_runs(), 4u);
  s.expect_unharmed();
}

TEST(Runs, OfAMessageTooLongForItsReceiveFailBothEnds) {
  Scene s;
  s.pair.world.faults().run = 1'000'000;
  s.right.receive(7, 700);
  s.left.post(s.left.send(1, 1000));
  s.run_until_sent(1);
  expect_sends(s.left, 0, Status::kRemoteInvalidRequest, 1);
  ASSERT_EQ(statuses(s.right.receives), std::vector{Status::kLocalLength});
  EXPECT_NO_THROW(s.right.inbox.expect_guards());
}

TEST(Runs, WithoutAReceiveWaitForOne) {
  Scene s;
  s.pair.world.faults().run = 1'000'000;
  s.left.post(s.left.send(1, 1000));
  s.pair.run(3'000'000);
  EXPECT_TRUE(s.left.sends.empty());
  s.right.receive(7, 1000);
  s.run_until_sent(1);
  EXPECT_EQ(statuses(s.right.receives), std::vector{Status::kSuccess});
  EXPECT_NO_THROW(expect_equal(s.right.inbox.bytes().first(1000), s.left.source.bytes().first(1000),
                               "receive"));
  s.expect_unharmed();
}

std::uint64_t address_of(Arena& arena) {
  return reinterpret_cast<std::uintptr_t>(arena.bytes().data());
}

// Shifts the address in a WRITE or READ. Captured addresses count from the target's start.
void shift_addresses(Packet& packet, std::uint64_t by) {
  const wire::OpcodeRow& row = wire::row_of(packet[0]);
  if (!row.reth || packet.size() < row.header_bytes) return;
  wire::Reth reth = wire::Reth::read_from(packet.data() + row.reth_at);
  reth.va += by;
  reth.write_to(packet.data() + row.reth_at);
}

// Returns what the left sends before it gets any answer.
std::vector<Packet> packets_of(Random& random) {
  Pair pair;
  std::vector<Packet> out;
  pair.world.filter = [&](const Node& from, std::span<const std::uint8_t> bytes) {
    if (from.index() != 0) return false;
    out.emplace_back(bytes.begin(), bytes.end());
    shift_addresses(out.back(), 0 - address_of(pair.right.target));
    return false;
  };
  for (std::uint64_t id = 1; id <= 6; ++id) {
    const auto length = static_cast<std::uint32_t>(random.below(1200));
    Request r = random.chance(600'000) ? pair.left.send(id, length)
                                       : pair.left.write(id, length, pair.right);
    const bool is_send = r.opcode == WorkOpcode::kSend;
    if (random.chance(200'000)) {
      r.opcode = is_send ? WorkOpcode::kSendImmediate : WorkOpcode::kWriteImmediate;
    }
    if (random.chance(200'000)) r.flags |= queue::kSolicited;
    pair.left.post(r);
  }
  if (random.chance(300'000)) pair.left.post(pair.left.read(7, 600, pair.right));
  pair.run(20'000);
  return out;
}

void spoil(std::vector<Packet>& packets, Random& random) {
  for (std::uint64_t i = random.below(4); i > 0 && packets.size() > 1; --i) {
    const std::size_t at = random.below(packets.size() - 1);
    Packet& packet = packets[at];
    switch (random.below(6)) {
      case 0:
        std::swap(packet, packets[at + 1]);
        break;
      case 1:
        packets.erase(packets.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 2:
        packets.insert(packets.end() - 1, Packet(packet));
        break;
      case 3:
        packet[0] = static_cast<std::uint8_t>(random.below(0x18));
        break;
      case 4: {
        std::uint8_t& byte = packet[1 + random.below(4)];  // flags, P_Key, congestion
        byte = static_cast<std::uint8_t>(byte ^ 1u << random.below(8));
        break;
      }
      default:
        if (packet.size() > 32) packet.resize(packet.size() - 1 - random.below(16));
        break;
    }
  }
}

struct Outcome {
  std::vector<std::uint64_t> ids;
  std::vector<Status> statuses;
  std::vector<std::uint32_t> lengths;
  std::vector<std::uint32_t> immediates;
  qp::State state{};
  std::uint32_t expected = 0;
  std::uint64_t packets = 0;
  std::size_t solicited = 0;  // events of a queue that is armed for solicited ones
  Packet inbox, target;       // contents, if the connection is still alive
  bool operator==(const Outcome&) const = default;
};

Outcome play(const std::vector<Packet>& packets, std::uint32_t how_often, bool with_receives,
             std::uint64_t* in_runs) {
  Pair pair;
  Outcome out;
  pair.world.filter = [](const Node&, std::span<const std::uint8_t>) { return false; };
  pair.world.faults().run = how_often;
  pair.right.receive_cq().arm(true);
  for (std::uint64_t id = 1; with_receives && id <= 8; ++id) pair.right.receive(id, 4096);
  for (Packet packet : packets) {
    shift_addresses(packet, address_of(pair.right.target));
    pair.world.inject(1, pair.a.address(), packet);
  }
  pair.run(1'000'000);
  for (const queue::Completion& c : pair.right.receives) {
    out.ids.push_back(c.id);
    out.statuses.push_back(c.status);
    out.lengths.push_back(c.byte_length);
    out.immediates.push_back(c.immediate);
  }
  out.state = pair.right.state();
  out.expected = pair.right.qp().expected_psn().value();
  out.packets = pair.right.node().device().counters().received.packets.read();
  out.solicited = pair.right.node().completion_events();
  const auto copy = [](Arena& arena) { return Packet(arena.bytes().begin(), arena.bytes().end()); };
  if (out.state == qp::State::kRts) {
    out.inbox = copy(pair.right.inbox);
    out.target = copy(pair.right.target);
  } else {
    out.expected = 0;  // a part of a message is refused as a whole
  }
  EXPECT_NO_THROW(pair.right.inbox.expect_guards());
  EXPECT_NO_THROW(pair.right.target.expect_guards());
  *in_runs += pair.world.in_runs();
  return out;
}

// The first and two middle packets of a SEND, as a run; `change` may change them.
struct Prefix {
  template <typename F>
  explicit Prefix(F&& change) {
    pair.world.faults().run = 1'000'000;
    std::vector<Packet> packets;
    pair.world.filter = [&](const Node& from, std::span<const std::uint8_t> bytes) {
      if (from.index() == 0) packets.emplace_back(bytes.begin(), bytes.end());
      return false;
    };
    pair.left.post(pair.left.send(1, 1000));
    pair.right.receive(1, 1000);
    pair.run(20'000);
    packets.resize(3);
    for (Packet& packet : packets) packet[8] &= 0x7f;  // nothing requests an ACK
    change(packets);
    pair.world.filter = [&](const Node& from, std::span<const std::uint8_t>) {
      answers += from.index() == 1 ? 1 : 0;
      return false;
    };
    for (const Packet& packet : packets) pair.world.inject(1, pair.a.address(), packet);
    pair.run(500'000);
    EXPECT_EQ(pair.world.in_runs(), 3u);
  }
  Pair pair;
  std::size_t answers = 0;
};

TEST(Runs, AreAnsweredIfAnyOfThemRequestsIt) {
  const Prefix silent([](std::vector<Packet>&) {});
  EXPECT_EQ(silent.answers, 0u);
  for (std::size_t which = 0; which < 3; ++which) {
    const Prefix requests([which](std::vector<Packet>& packets) { packets[which][8] |= 0x80; });
    EXPECT_EQ(requests.answers, 1u) << which;
  }
}

TEST(Runs, AreNotOneMessageIfTheirOperationsDiffer) {
  Prefix mixed([](std::vector<Packet>& packets) {
    packets[2][0] = static_cast<std::uint8_t>(wire::Opcode::kRcWriteMiddle);
  });
  EXPECT_EQ(mixed.pair.right.state(), qp::State::kError);
}

TEST(Runs, DoWhatTheirPacketsWouldDoOneByOne) {
  std::uint64_t alone = 0;
  std::uint64_t in_runs = 0;
  std::size_t alive = 0;
  constexpr std::size_t kSeeds = 1500;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Random random(seed);
    std::vector<Packet> packets = packets_of(random);
    ASSERT_FALSE(packets.empty());
    if (random.chance(600'000)) spoil(packets, random);
    const bool with_receives = random.chance(850'000);
    const Outcome one_by_one = play(packets, 0, with_receives, &alone);
    const Outcome together = play(packets, 1'000'000, with_receives, &in_runs);
    const Outcome now_and_then = play(packets, 500'000, with_receives, &in_runs);
    ASSERT_TRUE(one_by_one == together) << "seed " << seed;
    ASSERT_TRUE(one_by_one == now_and_then) << "seed " << seed;
    alive += one_by_one.state == qp::State::kRts ? 1 : 0;
  }
  EXPECT_EQ(alone, 0u);
  EXPECT_GT(in_runs, kSeeds);
  EXPECT_GT(alive, kSeeds / 2);
  EXPECT_LT(alive, kSeeds);
}

}  // namespace
}  // namespace verbena::sim
