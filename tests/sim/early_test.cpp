// SPDX-License-Identifier: BSD-2-Clause
// Packets that overtake others, and slow paths: a packet that is only late is not sent again.
#include "steps.hpp"

namespace verbena::sim {
namespace {

std::uint64_t repeated(const Scene& s) {
  return s.left.qp().endpoint().counters.retransmitted.read();
}

// Holds one packet back until `overtaking` others of its sender have passed.
class Late {
 public:
  Late(Scene& scene, Node& sender, std::size_t which, std::size_t overtaking) : scene_(scene) {
    scene.pair.world.filter = [this, &sender, which, overtaking](
                                  const Node& from, std::span<const std::uint8_t> bytes) {
      if (&from != &sender || scene_.is_beside(bytes)) return true;
      const std::size_t number = count_++;
      if (number == which) {
        held_.assign(bytes.begin(), bytes.end());
        return false;
      }
      if (number == which + overtaking) {
        const std::size_t to = &sender == &scene_.pair.a ? 1 : 0;
        scene_.pair.world.inject(to, sender.address(), held_);
      }
      return true;
    };
  }

 private:
  Scene& scene_;
  std::size_t count_ = 0;
  std::vector<std::uint8_t> held_;
};

TEST(Early, RequestsThatOvertakeOneAreKeptAndNothingGoesAgain) {
  Scene s;
  Late late(s, s.pair.a, 3, 2);
  s.left.post(s.left.write(1, 5'000, s.right));
  s.run_until_sent(1);
  EXPECT_EQ(s.left.sends[0].status, Status::kSuccess);
  EXPECT_EQ(repeated(s), 0u);
  expect_equal(s.right.target.bytes().first(5'000), s.left.source.bytes().first(5'000), "write");
  s.expect_unharmed();
}

// All come in one look: the gap that the first one shows is filled before an answer leaves.
TEST(Early, AGapThatIsFilledBeforeTheAnswerIsNotReported) {
  Scene s;
  std::vector<std::vector<std::uint8_t>> sent;
  std::size_t refusals = 0;
  s.pair.world.filter = [&](const Node& from, std::span<const std::uint8_t> bytes) {
    if (s.is_beside(bytes)) return true;
    if (&from == &s.pair.b) {
      const auto packet = wire::parse_packet(bytes);
      refusals += packet->row->aeth && packet->aeth().kind() != wire::AethKind::kAck ? 1 : 0;
      return true;
    }
    sent.emplace_back(bytes.begin(), bytes.end());
    return sent.size() > 3;
  };
  for (std::uint64_t id = 1; id <= 3; ++id) s.left.post(s.left.write(id, 100, s.right));
  s.pair.world.run(1'000);
  ASSERT_EQ(sent.size(), 3u);
  for (const std::size_t which : {2, 0, 1}) {
    wire::RxDatagram datagram;
    datagram.bytes = sent[which];
    datagram.source = s.pair.a.address();
    datagram.destination = s.pair.b.address();
    s.pair.b.device().handle_datagram(s.pair.world.now(), datagram);
  }
  s.run_until_sent(3);
  EXPECT_THAT(statuses(s.left.sends), testing::Each(Status::kSuccess));
  EXPECT_EQ(refusals, 0u);
  s.expect_unharmed();
}

TEST(Early, ResponsesThatOvertakeOneAreKeptAndNothingIsAskedForAgain) {
  Scene s;
  s.left.post(s.left.write(1, 5'000, s.right));
  s.run_until_sent(1);
  Late late(s, s.pair.b, 3, 2);
  s.left.post(s.left.read(2, 5'000, s.right));
  s.run_until_sent(2);
  EXPECT_EQ(s.left.sends[1].status, Status::kSuccess);
  EXPECT_EQ(repeated(s), 0u);
  expect_equal(s.left.result.bytes().first(5'000), s.left.source.bytes().first(5'000), "read");
  s.expect_unharmed();
}

TEST(Early, OneLostPacketIsRepeatedAloneWhereTheOthersWereKept) {
  Scene s;
  std::size_t count = 0;
  s.pair.world.filter = [&](const Node& from, std::span<const std::uint8_t>) {
    return &from != &s.pair.a || count++ != 3;
  };
  s.left.post(s.left.write(1, 10'000, s.right));
  s.run_until_sent(1);
  EXPECT_EQ(s.left.sends[0].status, Status::kSuccess);
  EXPECT_EQ(repeated(s), 1u);
  s.expect_unharmed();
}

// The specification allows a peer to drop all packets behind a gap. All of them are sent again
// then, without a timeout.
TEST(Early, PeersThatKeepNothingGetAllAgain) {
  Scene s;
  std::optional<std::uint32_t> due;
  bool has_lost = false;
  s.pair.world.filter = [&](const Node& from, std::span<const std::uint8_t> bytes) {
    if (&from != &s.pair.a || s.is_beside(bytes)) return true;
    const auto packet = wire::parse_packet(bytes);
    const std::uint32_t psn = packet->bth.psn.value();
    if (!due) due = psn;
    if (packet->bth.psn.is_before(Psn(*due))) return true;
    if (psn == *due && (has_lost || psn % 8 != 3)) {
      due = (psn + 1) & kMask24;
      return true;
    }
    has_lost = has_lost || psn == *due;
    // The first packet behind the gap arrives, so that the peer reports the gap.
    return psn == ((*due + 1) & kMask24) && packet->bth.ack_request;
  };
  s.left.post(s.left.write(1, 10'000, s.right));
  s.run_until_sent(1);
  EXPECT_EQ(s.left.sends[0].status, Status::kSuccess);
  EXPECT_EQ(s.left.qp().endpoint().port->ack_timeouts.read(), 0u);
  s.expect_unharmed();
}

TEST(Early, AWireThatReordersManyCostsFewRepetitions) {
  Scene s;
  Faults& faults = s.pair.world.faults();
  faults.reorder = 100'000;
  faults.reorder_delay = 800;
  faults.wire_ns_per_kib = 1'000;
  for (std::uint64_t id = 1; id <= 60; ++id) s.left.post(s.left.write(id, 16 * 256, s.right));
  s.run_until_sent(60);
  EXPECT_THAT(statuses(s.left.sends), testing::Each(Status::kSuccess));
  EXPECT_LT(repeated(s), 60u * 16 / 10);
  s.expect_unharmed();
}

TEST(Early, AWayThatTakesLongIsLearntAndNotProbedForEver) {
  Scene s;
  s.pair.world.faults().delay_min = 10'000'000;
  for (std::uint64_t id = 1; id <= 30; ++id) s.left.post(s.left.write(id, 4'000, s.right));
  s.run_until_sent(30);
  const std::uint64_t until_learnt = repeated(s);
  EXPECT_LT(until_learnt, 8u);
  for (std::uint64_t id = 31; id <= 60; ++id) s.left.post(s.left.write(id, 4'000, s.right));
  s.run_until_sent(60);
  EXPECT_THAT(statuses(s.left.sends), testing::Each(Status::kSuccess));
  EXPECT_EQ(repeated(s), until_learnt);
  EXPECT_EQ(s.left.qp().endpoint().port->ack_timeouts.read(), 0u);
  s.expect_unharmed();
}

// The peer's answers say nothing new, but they are answers: no retry counts, however many come.
TEST(Early, APeerThatIsHeardOfIsNotGivenUp) {
  PeerOptions options;
  options.timeout = 8;
  options.retry_count = 1;
  Scene s(options);
  std::vector<std::uint8_t> answer;
  s.left.post(s.left.write(1, 100, s.right));
  s.pair.world.filter = [&](const Node& from, std::span<const std::uint8_t> bytes) {
    if (&from == &s.pair.b && !s.is_beside(bytes)) answer.assign(bytes.begin(), bytes.end());
    return true;
  };
  s.run_until_sent(1);
  ASSERT_FALSE(answer.empty());
  s.pair.world.filter = [&](const Node& from, std::span<const std::uint8_t> bytes) {
    return &from != &s.pair.a || s.is_beside(bytes);
  };
  s.left.post(s.left.write(2, 100, s.right));
  for (int i = 0; i < 50; ++i) {
    s.pair.run(10'000'000);
    s.pair.world.inject(0, s.pair.b.address(), answer);
  }
  s.left.reap();
  EXPECT_EQ(s.left.sends.size(), 1u);
  s.pair.world.filter = nullptr;
  s.run_until_sent(2);
  EXPECT_THAT(statuses(s.left.sends), testing::Each(Status::kSuccess));
  s.expect_unharmed();
}

}  // namespace
}  // namespace verbena::sim
