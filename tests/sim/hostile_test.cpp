// SPDX-License-Identifier: BSD-2-Clause
// A node that sends any bytes: mutations of packets that it overheard, and pure noise. Nothing may
// crash, and no byte outside of the opened regions may change. If the attacker does not have the
// address of a connection's peer, that connection does not even notice.
#include <array>

#include "steps.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::sim {
namespace {

class Attack {
 public:
  Attack(Scene& scene, std::uint64_t seed) : s_(scene), random_(seed) {
    s_.pair.world.filter = [this](const Node&, std::span<const std::uint8_t> bytes) {
      if (heard_.size() < 400) heard_.emplace_back(bytes.begin(), bytes.end());
      return true;
    };
  }
  ~Attack() { s_.pair.world.filter = nullptr; }

  // Sends one bad packet to either node, with `source` as its source address.
  void shoot(const IpAddress& source) {
    if (heard_.empty()) return;
    std::vector<std::uint8_t> bytes = heard_[random_.below(heard_.size())];
    const std::uint64_t changes = random_.below(5);
    const std::array<std::uint8_t, 3> qpn{bytes[5], bytes[6], bytes[7]};
    for (std::uint64_t i = 0; i < changes; ++i) change(bytes);
    // A forger could name any connection. This one mostly names the one that it overheard, and
    // never the one beside it, which must stay unharmed.
    if (changes != 0 && !random_.chance(100'000)) std::copy(qpn.begin(), qpn.end(), &bytes[5]);
    if (s_.is_beside(bytes)) return;
    s_.pair.world.inject(random_.below(2), source, bytes);
  }

 private:
  void change(std::vector<std::uint8_t>& bytes) {
    switch (random_.below(6)) {
      case 0:  // any byte
        bytes[random_.below(bytes.size())] = static_cast<std::uint8_t>(random_.next());
        break;
      case 1:  // another opcode
        bytes[0] = static_cast<std::uint8_t>(random_.next());
        break;
      case 2:  // another PSN close by
        bytes[11] = static_cast<std::uint8_t>(bytes[11] + random_.below(9) - 4);
        break;
      case 3:  // shorter
        bytes.resize(std::max<std::size_t>(random_.below(bytes.size() + 1) & ~std::size_t{3}, 12));
        break;
      case 4:  // longer
        bytes.resize(std::min<std::size_t>(bytes.size() + 4 * random_.below(300), 4300),
                     static_cast<std::uint8_t>(random_.next()));
        break;
      default: {  // a header field with an extreme value
        if (bytes.size() < 28) break;
        const std::size_t at = 12 + random_.below(bytes.size() - 16);
        const std::uint8_t value = random_.chance(500'000) ? 0xff : 0;
        for (std::size_t i = 0; i < 4; ++i) bytes[at + i] = value;
      }
    }
  }

  Scene& s_;
  Random random_;
  std::vector<std::vector<std::uint8_t>> heard_;
};

// Posts traffic that goes on (if it can) during the attack.
void exchange(Scene& s, std::uint64_t round) {
  for (std::uint64_t i = 0; i < 3; ++i) s.right.receive(round);
  s.left.post(s.left.send(round, 600));
  s.left.post(s.left.write(round, 600, s.right, 4096));
  s.left.post(s.left.read(round, 600, s.right, 8192));
  s.left.post(s.left.fetch_add(round, 1, s.right));
  s.right.post(s.right.write(round, 100, s.left, 4096));
}

void expect_only_open_memory_changed(Scene& s) {
  for (Peer* peer : {&s.left, &s.right}) {
    expect_pattern(peer->source.bytes(), 77 + peer->node().index(), "memory that nobody opened");
    for (const Arena* arena : {&peer->source, &peer->result, &peer->inbox, &peer->target}) {
      arena->expect_guards();
    }
  }
}

TEST(Hostile, StrangersAreNotHeard) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Scene s({}, {}, seed);
    Attack attack(s, seed);
    for (std::uint64_t round = 1; round <= 12; ++round) {
      exchange(s, round);
      for (int i = 0; i < 40; ++i) attack.shoot(IpAddress::v4(0x7f0000aa));
      s.pair.run(1'000'000);
    }
    ASSERT_TRUE(s.pair.run_until([&] {
      return s.left.sends.size() == 48 && s.right.sends.size() == 12;
    })) << seed;
    EXPECT_THAT(statuses(s.left.sends), testing::Each(Status::kSuccess));
    EXPECT_THAT(statuses(s.right.receives), testing::Each(Status::kSuccess));
    EXPECT_EQ(s.right.receives.size(), 12u);
    std::uint64_t counter;
    std::memcpy(&counter, s.right.target.bytes().data(), 8);
    EXPECT_EQ(counter, 12u);
    ASSERT_NO_THROW(expect_only_open_memory_changed(s));
    s.expect_unharmed();
  }
}

// With the peer's address a forged packet cannot be told from a true one. That connection may
// break, or carry wrong data within the memory that was opened for it. The one beside it may not.
TEST(Hostile, ForgedPacketsHarmNobodyButTheConnectionTheyName) {
  for (const Transport transport :
       {Transport::kRc, Transport::kUc, Transport::kUd, Transport::kXrcSend}) {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      PeerOptions left, right;
      left.transport = transport;
      right.transport = other_end(transport);
      Scene s(left, right, seed);
      queue::AddressVector address;
      address.destination.address = s.pair.b.address();
      const bool xrc = transport == Transport::kXrcSend;
      {
        Attack attack(s, seed);
        for (std::uint64_t round = 1; round <= 10; ++round) {
          s.right.receive(round);
          Request r = s.left.send(round, 200);
          r.address = &address;
          r.remote_qpn = s.right.qp().number().value();
          r.remote_qkey = 0x11111111;
          if (xrc) r.remote_srqn = s.right.srq()->number;
          s.left.post(r);
          if (transport == Transport::kRc) exchange(s, round);
          for (int i = 0; i < 20; ++i) attack.shoot(s.pair.a.address());
          for (int i = 0; i < 20; ++i) attack.shoot(s.pair.b.address());
          s.pair.run(1'000'000);
        }
      }
      ASSERT_NO_THROW(expect_only_open_memory_changed(s)) << seed;
      EXPECT_TRUE(s.left.qp().is_consistent() && s.right.qp().is_consistent());
      // Each request has completed at most once.
      EXPECT_LE(s.left.sends.size(), 50u);
      s.expect_unharmed();
    }
  }
}

// A packet of another partition is dropped and counted under its own reason. A packet of a limited
// member of the same partition is accepted.
TEST(Hostile, PacketsOfAnotherPartitionAreDroppedAndCounted) {
  Scene s;
  std::vector<std::uint8_t> heard;
  s.pair.world.filter = [&](const Node& from, std::span<const std::uint8_t> bytes) {
    if (&from == &s.pair.a && !s.is_beside(bytes)) heard.assign(bytes.begin(), bytes.end());
    return true;
  };
  s.left.post(s.left.write(1, 100, s.right));
  s.run_until_sent(1);
  ASSERT_FALSE(heard.empty());
  s.pair.world.filter = nullptr;
  const DropCounters& drops = s.pair.b.device().counters().drops;
  const auto inject = [&](std::uint8_t upper, std::uint8_t lower) {
    const std::uint64_t before = drops.read(DropReason::kBadPkey);
    heard[2] = upper;
    heard[3] = lower;
    s.pair.world.inject(1, s.pair.a.address(), heard);
    s.pair.run(1'000'000);
    return drops.read(DropReason::kBadPkey) - before;
  };
  EXPECT_EQ(inject(0x80, 0x01), 1u);
  EXPECT_EQ(inject(0x00, 0x00), 1u);
  EXPECT_EQ(inject(0x7f, 0xff), 0u);
  EXPECT_EQ(inject(0xff, 0xff), 0u);
  s.expect_unharmed();
}

TEST(Hostile, EveryDropHasAReason) {
  Scene s;
  Attack attack(s, 5);
  exchange(s, 1);
  s.pair.run(5'000'000);
  auto& counters = s.pair.b.device().counters();
  const std::uint64_t before = counters.received.packets.read(), dropped = counters.drops.total();
  const auto p = s.right.qp().endpoint().counters.packets_received.read();
  for (int i = 0; i < 500; ++i) attack.shoot(IpAddress::v4(0x7f0000aa));
  s.pair.run(5'000'000);
  EXPECT_EQ(counters.drops.total() - dropped, counters.received.packets.read() - before);
  EXPECT_EQ(s.right.qp().endpoint().counters.packets_received.read(), p);
}

}  // namespace
}  // namespace verbena::sim
