// SPDX-License-Identifier: BSD-2-Clause
// Many queue pairs that send to one peer: they take turns, so that together they stay below what
// the peer can hold, and one that gets no answer does not keep the others waiting.
#include <deque>

#include "steps.hpp"

namespace verbena::sim {
namespace {

constexpr std::uint32_t kMessage = 4096;  // 16 packets

// Connections between two devices, of which the receiving one holds `capacity` packets.
class Crowd {
 public:
  Crowd(std::size_t count, std::uint32_t capacity, const PeerOptions& options = {})
      : world(1), options_(options) {
    world.faults().receive_capacity = capacity;
    for (std::size_t i = 0; i < count; ++i) join();
  }
  void join() {
    Peer& from = left.emplace_back(world, sender, options_);
    Peer& to = right.emplace_back(world, receiver, options_);
    from.bring_up(to);
    to.bring_up(from);
  }
  void post_writes(std::size_t i, std::size_t count) {
    for (std::size_t n = 0; n < count; ++n) {
      ASSERT_EQ(left[i].post(left[i].write(n + 1, kMessage, right[i])), requester::Posted::kOk);
    }
  }
  std::uint32_t in_flight() const {
    std::uint32_t sum = 0;
    for (const Peer& p : left) sum += p.qp().requester().in_flight();
    return sum;
  }
  template <typename F>
  bool run_until(F&& ready, TimeNs limit = 2'000'000'000) {
    const TimeNs end = world.now() + limit;
    for (;;) {
      for (Peer& p : left) p.reap();
      for (Peer& p : right) p.reap();
      if (ready()) return true;
      if (world.now() >= end) return false;
      world.step(std::min(end, world.now() + 100'000));
    }
  }
  bool run_until_sent(std::size_t i, std::size_t count, TimeNs limit = 2'000'000'000) {
    return run_until([&] { return left[i].sends.size() >= count; }, limit);
  }
  void lose_all_of(std::size_t count) {
    world.filter = [this, count](const Node&, std::span<const std::uint8_t> bytes) {
      const Qpn to((std::uint32_t{bytes[5]} << 16) | (std::uint32_t{bytes[6]} << 8) | bytes[7]);
      for (std::size_t i = 0; i < count; ++i) {
        if (to == right[i].qp().number()) return false;
      }
      return true;
    };
  }

  World world;
  Node& sender = world.add_node();
  Node& receiver = world.add_node();
  std::deque<Peer> left, right;

 private:
  PeerOptions options_;
};

TEST(Turns, ManyTogetherStayBelowWhatTheirPeerHolds) {
  Crowd crowd(60, 32);
  for (std::size_t i = 0; i < crowd.left.size(); ++i) crowd.post_writes(i, 3);
  std::uint32_t most = 0;
  ASSERT_TRUE(crowd.run_until([&] {
    most = std::max(most, crowd.in_flight());
    return std::all_of(crowd.left.begin(), crowd.left.end(),
                       [](const Peer& p) { return p.sends.size() == 3; });
  }));
  EXPECT_LE(most, 32u);
  EXPECT_GE(most, 16u);
  for (const Peer& p : crowd.left) {
    EXPECT_THAT(statuses(p.sends), testing::Each(Status::kSuccess));
    EXPECT_EQ(p.qp().endpoint().counters.retransmitted.read(), 0u);
  }
}

TEST(Turns, OneEndsWhereOthersWait) {
  Crowd crowd(3, 16);
  crowd.post_writes(0, 60);
  crowd.post_writes(1, 1);
  crowd.post_writes(2, 1);
  ASSERT_TRUE(crowd.run_until_sent(2, 1));
  EXPECT_EQ(crowd.left[1].sends.size(), 1u);
  EXPECT_LE(crowd.left[0].sends.size(), 20u);
  ASSERT_TRUE(crowd.run_until_sent(0, 60));
}

TEST(Turns, OneAloneSharesWithWhoComesLater) {
  Crowd crowd(1, 16);
  crowd.post_writes(0, 60);
  ASSERT_TRUE(crowd.run_until_sent(0, 5));
  crowd.join();
  crowd.post_writes(1, 1);
  ASSERT_TRUE(crowd.run_until_sent(1, 1));
  EXPECT_LE(crowd.left[0].sends.size(), 25u);
  ASSERT_TRUE(crowd.run_until_sent(0, 60));
  for (const Peer& p : crowd.left) {
    EXPECT_EQ(p.qp().endpoint().counters.retransmitted.read(), 0u);
  }
}

TEST(Turns, WhoWaitsForAReceiveKeepsNobodyWaiting) {
  Crowd crowd(5, 32);
  for (std::size_t i = 0; i < 4; ++i) crowd.left[i].post(crowd.left[i].send(1, kMessage));
  crowd.post_writes(4, 1);
  ASSERT_TRUE(crowd.run_until_sent(4, 1));
  ASSERT_FALSE(crowd.run_until_sent(0, 1, 500'000'000));
  for (std::size_t i = 0; i < 4; ++i) crowd.right[i].receive(1);
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(crowd.run_until_sent(i, 1));
    EXPECT_EQ(crowd.left[i].sends[0].status, Status::kSuccess);
    EXPECT_EQ(crowd.left[i].qp().endpoint().port->ack_timeouts.read(), 0u);
  }
}

TEST(Turns, WhoGetsNoAnswerKeepsNobodyWaiting) {
  Crowd crowd(5, 16);
  crowd.lose_all_of(4);
  for (std::size_t i = 0; i < 5; ++i) crowd.post_writes(i, 1);
  ASSERT_TRUE(crowd.run_until_sent(4, 1, 400'000'000));
  EXPECT_EQ(crowd.left[4].sends[0].status, Status::kSuccess);
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(crowd.run_until_sent(i, 1, 20'000'000'000));
    EXPECT_EQ(crowd.left[i].sends[0].status, Status::kRetryExceeded);
  }
}

// Neither for ever, where no retry counts, nor for a long local ACK timeout (here 17 s).
TEST(Turns, WhoGetsNoAnswerForLongKeepsNobodyWaiting) {
  for (const std::uint8_t timeout : {0, 22}) {
    PeerOptions options;
    options.timeout = timeout;
    Crowd crowd(6, 36, options);
    crowd.lose_all_of(5);
    for (std::size_t i = 0; i < 5; ++i) crowd.post_writes(i, 20);
    crowd.run_until([] { return false; }, 1'000'000);
    crowd.post_writes(5, 60);
    ASSERT_TRUE(crowd.run_until_sent(5, 60, 300'000'000)) << int{timeout};
    EXPECT_THAT(statuses(crowd.left[5].sends), testing::Each(Status::kSuccess));
    // They go on when they are heard again.
    crowd.world.filter = nullptr;
    for (std::size_t i = 0; i < 5; ++i) ASSERT_TRUE(crowd.run_until_sent(i, 20)) << i;
  }
}

TEST(Turns, OneDestroyedInTheQueueIsSkipped) {
  Crowd crowd(3, 16);
  crowd.post_writes(0, 20);
  crowd.post_writes(1, 1);
  crowd.post_writes(2, 1);
  crowd.left[0].node().device().destroy_qp(&crowd.left[1].qp());
  crowd.left[1].forget();
  ASSERT_TRUE(crowd.run_until_sent(2, 1));
  ASSERT_TRUE(crowd.run_until_sent(0, 20));
  EXPECT_TRUE(crowd.left[1].sends.empty());
}

TEST(Turns, ThoseToAnotherPeerTakeNoPart) {
  Crowd crowd(3, 16);
  Node& third = crowd.world.add_node();
  Peer from(crowd.world, crowd.left[0].node(), {});
  Peer to(crowd.world, third, {});
  from.bring_up(to);
  to.bring_up(from);
  crowd.lose_all_of(3);
  for (std::size_t i = 0; i < 3; ++i) crowd.post_writes(i, 1);
  from.post(from.write(1, kMessage, to));
  ASSERT_TRUE(crowd.run_until(
      [&] {
        from.reap();
        return from.sends.size() == 1;
      },
      5'000'000));
}

}  // namespace
}  // namespace verbena::sim
