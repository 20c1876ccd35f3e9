// SPDX-License-Identifier: BSD-2-Clause
// The states of a queue pair while it has work: draining, going to error, starting again.
#include "steps.hpp"

namespace verbena::sim {
namespace {

using qp::State;

qp::Attributes state(State to, bool notify = false) {
  qp::Attributes a;
  a.state = to;
  a.sqd_notify = notify;
  return a;
}

TEST(Draining, FinishesWhatHasBegunAndHoldsTheRest) {
  Scene s;
  s.left.post(s.left.write(1, 6000, s.right));
  s.left.modify(state(State::kSqd, true), qp::kMaskState | qp::kMaskSqdNotify);
  s.left.post(s.left.write(2, 300, s.right, 8192));
  s.left.post(s.left.read(3, 300, s.right));
  ASSERT_TRUE(s.pair.run_until([&] { return s.left.count(AsyncEvent::kSqDrained) == 1; }));
  s.pair.run(100'000'000);
  EXPECT_EQ(ids(s.left.sends), (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(s.left.count(AsyncEvent::kSqDrained), 1u);
  EXPECT_EQ(s.right.target.bytes()[8192], 0);
  // The left still answers its peer while it is drained.
  s.right.post(s.right.read(1, 300, s.left));
  ASSERT_TRUE(s.pair.run_until([&] { return s.right.sends.size() == 1; }));

  s.left.to_state(State::kRts);
  s.run_until_sent(3);
  EXPECT_THAT(statuses(s.left.sends), testing::Each(Status::kSuccess));
  s.expect_unharmed();
}

TEST(Draining, OfAnIdleQueuePairIsDoneAtOnce) {
  Scene s;
  s.left.modify(state(State::kSqd, true), qp::kMaskState | qp::kMaskSqdNotify);
  EXPECT_EQ(s.left.count(AsyncEvent::kSqDrained), 1u);
  s.left.to_state(State::kRts);
  s.left.modify(state(State::kSqd), qp::kMaskState);  // does not ask for the event
  s.pair.run(10'000'000);
  EXPECT_EQ(s.left.count(AsyncEvent::kSqDrained), 1u);
}

// A message that was begun is in progress until it completes, even if all that was sent of it is
// answered for a moment.
TEST(Draining, EndsBehindTheWholeMessage) {
  PeerOptions one_at_a_time;
  one_at_a_time.max_rd_atomic = 1;
  const auto post_read = [](Scene& s) { s.left.post(s.left.read(1, 30'000, s.right)); };
  const auto post_write = [](Scene& s) {
    s.pair.world.faults().receive_capacity = 1;  // a window of one packet
    for (Peer* end : {&s.left, &s.right}) end->to_state(State::kReset);
    s.pair.connect();
    s.left.post(s.left.write(1, 30'000, s.right));
  };
  for (const bool reads : {true, false}) {
    Scene s(one_at_a_time);
    reads ? post_read(s) : post_write(s);
    s.left.post(s.left.send(2, 100));
    ASSERT_TRUE(s.left.sends.empty());
    s.left.modify(state(State::kSqd, true), qp::kMaskState | qp::kMaskSqdNotify);
    std::size_t done = 0;
    ASSERT_TRUE(s.pair.run_until([&] {
      done = s.left.sends.size();
      return s.left.count(AsyncEvent::kSqDrained) == 1;
    }));
    EXPECT_EQ(done, 1u) << (reads ? "READ" : "WRITE");
    EXPECT_TRUE(s.left.qp().requester().is_drained());
    s.pair.run(100'000'000);
    EXPECT_EQ(s.left.sends.size(), 1u) << "the SEND is held";
    ASSERT_TRUE(s.right.receive(1));
    s.left.to_state(State::kRts);
    s.run_until_sent(2);
    EXPECT_THAT(statuses(s.left.sends), testing::Each(Status::kSuccess));
  }
}

TEST(Draining, HoldsAReadThatWaitsForTheOneBeforeIt) {
  PeerOptions one_at_a_time;
  one_at_a_time.max_rd_atomic = 1;
  Scene s(one_at_a_time);
  s.pair.world.faults().delay_min = 5'000'000;
  for (std::uint64_t id = 1; id <= 4; ++id) s.left.post(s.left.read(id, 300, s.right));
  s.pair.run(1'000'000);
  s.left.modify(state(State::kSqd, true), qp::kMaskState | qp::kMaskSqdNotify);
  ASSERT_TRUE(s.pair.run_until([&] { return s.left.count(AsyncEvent::kSqDrained) == 1; }));
  s.pair.run(100'000'000);
  EXPECT_EQ(ids(s.left.sends), (std::vector<std::uint64_t>{1}));
  s.left.to_state(State::kRts);
  s.run_until_sent(4);
  EXPECT_THAT(statuses(s.left.sends), testing::Each(Status::kSuccess));
}

TEST(Draining, SurvivesLoss) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Scene s({}, {}, seed);
    s.pair.world.faults().drop = s.pair.world.faults().reorder = 150'000;
    for (std::uint64_t id = 1; id <= 10; ++id) s.left.post(s.left.write(id, 700, s.right));
    s.pair.run(5'000'000 * (seed % 3));
    s.left.modify(state(State::kSqd, true), qp::kMaskState | qp::kMaskSqdNotify);
    ASSERT_TRUE(s.pair.run_until([&] { return s.left.count(AsyncEvent::kSqDrained) == 1; }));
    const std::size_t done = s.left.sends.size();
    s.pair.run(300'000'000);
    EXPECT_EQ(s.left.sends.size(), done)
        << "drained means that nothing is under way, seed " << seed;
    s.left.to_state(State::kRts);
    s.run_until_sent(10);
    EXPECT_THAT(statuses(s.left.sends), testing::Each(Status::kSuccess));
  }
}

TEST(ToError, UnderLoadFlushesEverythingOnceAndInOrder) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Scene s({}, {}, seed);
    s.pair.world.faults().drop = seed % 2 == 0 ? 100'000 : 0;
    for (std::uint64_t id = 1; id <= 8; ++id) {
      ASSERT_TRUE(s.left.receive(id));
      ASSERT_TRUE(s.right.receive(id, 1024, 1024 * id));
    }
    for (std::uint64_t id = 1; id <= 20; ++id) {
      s.left.post(id % 3 == 0   ? s.left.read(id, 900, s.right)
                  : id % 3 == 1 ? s.left.send(id, 900)
                                : s.left.fetch_add(id, 1, s.right));
      if (id % 4 == 0) s.pair.world.step(s.pair.world.now() + seed * 500);
    }
    s.left.to_state(State::kError);
    s.left.reap();
    ASSERT_EQ(s.left.sends.size(), 20u);
    bool flushed = false;
    for (std::size_t i = 0; i < 20; ++i) {
      EXPECT_EQ(s.left.sends[i].id, i + 1);
      flushed = flushed || s.left.sends[i].status == Status::kFlushed;
      EXPECT_EQ(s.left.sends[i].status, flushed ? Status::kFlushed : Status::kSuccess);
    }
    EXPECT_EQ(ids(s.left.receives), (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
    EXPECT_EQ(s.left.count(AsyncEvent::kQpFatal), 0u);  // the program asked for the error state
    // Requests and receives that are posted now are flushed at once.
    EXPECT_EQ(s.left.post(s.left.send(21, 10)), requester::Posted::kOk);
    EXPECT_TRUE(s.left.receive(9));
    s.left.reap();
    EXPECT_EQ(s.left.sends.back().status, Status::kFlushed);
    EXPECT_EQ(s.left.receives.back().id, 9u);
    s.pair.world.faults() = {};
    s.expect_unharmed();
  }
}

TEST(ToReset, ForgetsWithoutCompletionsAndStartsAnew) {
  Scene s;
  for (std::uint64_t round = 0; round < 20; ++round) {
    for (std::uint64_t id = 1; id <= 6; ++id) {
      ASSERT_TRUE(s.right.receive(100 + id));
      s.left.post(s.left.send(100 + id, 700));
      s.left.post(s.left.read(200 + id, 700, s.right));
    }
    s.pair.world.step(s.pair.world.now() + round * 2'000);  // somewhere in the middle
    s.left.to_state(State::kReset);
    s.right.to_state(State::kReset);
    s.left.reap();
    s.right.reap();
    const std::size_t before = s.left.sends.size();
    s.pair.run(10'000'000);
    EXPECT_EQ(s.left.sends.size(), before) << "a queue pair in RESET completes nothing";
    s.left.sends.clear();
    s.right.receives.clear();

    for (Peer* end : {&s.left, &s.right}) end->to_state(State::kReset);
    s.pair.connect();
    ASSERT_TRUE(s.right.receive(1));
    s.left.post(s.left.send(1, 700));
    s.left.post(s.left.fetch_add(2, 1, s.right));
    ASSERT_TRUE(s.pair.run_until([&] { return s.left.sends.size() == 2; })) << round;
    EXPECT_THAT(statuses(s.left.sends), testing::Each(Status::kSuccess));
    ASSERT_EQ(ids(s.right.receives), (std::vector<std::uint64_t>{1}));
    s.left.sends.clear();
    s.right.receives.clear();
  }
  s.expect_unharmed();
}

TEST(AfterAnError, AQueuePairCanBeUsedAgain) {
  Scene s;
  Request bad = s.left.write(1, 10, s.right);
  bad.remote_key ^= 1;
  s.left.post(bad);
  s.run_until_sent(1);
  EXPECT_EQ(s.left.sends[0].status, Status::kRemoteAccess);
  s.left.to_state(State::kReset);
  s.right.to_state(State::kReset);
  s.left.sends.clear();
  s.pair.connect();
  s.left.post(s.left.write(1, 600, s.right));
  s.left.post(s.left.fetch_add(2, 1, s.right));
  s.run_until_sent(2);
  EXPECT_THAT(statuses(s.left.sends), testing::Each(Status::kSuccess));
}

TEST(SendQueueError, OfAnUnconnectedSendEndsTheSendQueueOnlyAndCanBeLeft) {
  for (const Transport transport : {Transport::kUc, Transport::kUd}) {
    PeerOptions options;
    options.transport = transport;
    Scene s(options);
    queue::AddressVector address;
    address.destination.address = s.pair.b.address();
    const auto send = [&](std::uint64_t id) {
      Request r = s.left.send(id, 200);
      r.address = &address;
      r.remote_qpn = s.right.qp().number().value();
      r.remote_qkey = 0x11111111;
      return r;
    };
    ASSERT_TRUE(s.left.receive(1));
    ASSERT_TRUE(s.right.receive(1));
    Request bad = send(1);
    bad.buffers[0].key ^= 1;
    s.left.post(bad);
    s.left.post(send(2));
    s.pair.run(1'000'000);
    expect_sends(s.left, 0, Status::kLocalProtection, 2);
    EXPECT_EQ(s.left.state(), State::kSqe);
    EXPECT_TRUE(s.left.receives.empty());  // receiving goes on
    s.left.to_state(State::kRts);
    s.left.post(send(3));
    s.pair.run(1'000'000);
    EXPECT_EQ(s.left.sends.back().status, Status::kSuccess);
    EXPECT_EQ(statuses(s.right.receives), (std::vector{Status::kSuccess}));
    s.expect_unharmed();
  }
}

}  // namespace
}  // namespace verbena::sim
