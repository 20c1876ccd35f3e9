// SPDX-License-Identifier: BSD-2-Clause
// Events of completion queues and shared receive queues: overflow, limits, last receives, arming.
#include "steps.hpp"

namespace verbena::sim {
namespace {

TEST(CompletionQueues, ThatOverflowSayItOnceAndTakeTheirQueuePairWithThem) {
  PeerOptions options;
  options.cq_capacity = 4;
  Scene s(options);
  for (std::uint64_t id = 1; id <= 10; ++id) s.left.post(s.left.write(id, 10, s.right));
  for (int i = 0; i < 200; ++i) s.pair.world.step(s.pair.world.now() + 100'000);  // nothing polls
  EXPECT_EQ(s.left.count(AsyncEvent::kCqError), 1u);
  EXPECT_EQ(s.left.count(AsyncEvent::kQpFatal), 1u);
  EXPECT_EQ(s.left.state(), qp::State::kError);
  EXPECT_TRUE(s.left.send_cq().in_error());
  s.left.reap();
  EXPECT_EQ(ids(s.left.sends), (std::vector<std::uint64_t>{1, 2, 3, 4}));  // none was overwritten
  s.expect_unharmed();
}

TEST(CompletionQueues, OfAReceiverThatOverflowEndItsQueuePairOnly) {
  PeerOptions right;
  right.cq_capacity = 2;
  Scene s({}, right);
  for (std::uint64_t id = 1; id <= 5; ++id) {
    ASSERT_TRUE(s.right.receive(id));
    s.left.post(s.left.send(id, 10));
  }
  for (int i = 0; i < 30'000; ++i) s.pair.world.step(s.pair.world.now() + 100'000);
  EXPECT_EQ(s.right.count(AsyncEvent::kCqError), 1u);
  EXPECT_EQ(s.right.count(AsyncEvent::kQpFatal), 1u);
  s.pair.run(1'000'000);
  expect_sends(s.left, 2, Status::kRemoteOperation, 5);  // as many as can be polled
  s.right.reap();
  EXPECT_EQ(ids(s.right.receives), (std::vector<std::uint64_t>{1, 2}));
  s.expect_unharmed();
}

TEST(CompletionQueues, ReportOncePerArming) {
  Scene s;
  const auto write = [&](std::uint64_t id) {
    s.left.post(s.left.write(id, 10, s.right));
    s.run_until_sent(id);
  };
  write(1);
  EXPECT_EQ(s.pair.a.completion_events(), 0u);  // the queue is not armed
  s.left.send_cq().arm(false);
  write(2);
  EXPECT_EQ(s.pair.a.completion_events(), 1u);
  write(3);
  EXPECT_EQ(s.pair.a.completion_events(), 1u);
}

TEST(CompletionQueues, ArmedForSolicitedEventsWaitForOneOrForAnError) {
  Scene s;
  std::uint64_t id = 0;
  const auto send = [&](std::uint8_t flags) {
    ++id;
    ASSERT_TRUE(s.right.receive(id));
    Request r = s.left.send(id, 700);
    r.flags |= flags;
    s.left.post(r);
    s.run_until_sent(id);
  };
  s.right.receive_cq().arm(true);
  send(0);
  EXPECT_EQ(s.pair.b.completion_events(), 0u);
  send(queue::kSolicited);
  EXPECT_EQ(s.pair.b.completion_events(), 1u);
  send(queue::kSolicited);
  EXPECT_EQ(s.pair.b.completion_events(), 1u);  // disarmed
  s.right.receive_cq().arm(true);
  ASSERT_TRUE(s.right.receive(77));
  s.right.to_state(qp::State::kError);  // a flushed receive is an error
  EXPECT_EQ(s.pair.b.completion_events(), 2u);
}

TEST(CompletionQueues, ArmedForSolicitedEventsHearOfWritesWithImmediate) {
  Scene s;
  s.right.receive_cq().arm(true);
  ASSERT_TRUE(s.right.receive(1));
  Request r = s.left.write(1, 700, s.right);
  r.opcode = WorkOpcode::kWriteImmediate;
  r.flags |= queue::kSolicited;
  s.left.post(r);
  s.run_until_sent(1);
  EXPECT_EQ(s.pair.b.completion_events(), 1u);
}

TEST(SharedReceives, ReportTheirLimitOnceEachTimeItIsArmed) {
  PeerOptions right;
  right.use_srq = true;
  Scene s({}, right);
  for (std::uint64_t id = 1; id <= 10; ++id) ASSERT_TRUE(s.right.receive(id));
  ASSERT_TRUE(s.right.srq()->queue.set_limit(8));
  for (std::uint64_t id = 1; id <= 5; ++id) {
    s.left.post(s.left.send(id, 10));
    s.run_until_sent(id);
    EXPECT_EQ(s.right.count(AsyncEvent::kSrqLimitReached), id >= 3 ? 1u : 0u) << id;
  }
  ASSERT_TRUE(s.right.srq()->queue.set_limit(5));
  s.left.post(s.left.send(6, 10));
  s.run_until_sent(6);
  EXPECT_EQ(s.right.count(AsyncEvent::kSrqLimitReached), 2u);
}

TEST(SharedReceives, OutliveTheirQueuePairWhichReportsItsLast) {
  PeerOptions right;
  right.use_srq = true;
  Scene s({}, right);
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(s.right.receive(id));
  s.left.post(s.left.send(1, 10));
  s.run_until_sent(1);
  s.right.to_state(qp::State::kError);
  s.right.reap();
  EXPECT_EQ(s.right.count(AsyncEvent::kLastWqeReached), 1u);
  EXPECT_EQ(ids(s.right.receives), (std::vector<std::uint64_t>{1}));  // the others stay
  EXPECT_EQ(s.right.srq()->queue.count(), 3u);
  s.expect_unharmed();
}

TEST(SharedReceives, ThatAMessageHadBegunToFillAreFlushedWithTheQueuePair) {
  PeerOptions right;
  right.use_srq = true;
  Scene s({}, right);
  ASSERT_TRUE(s.right.receive(1));
  unsigned sent = 0;
  s.pair.world.filter = [&](const Node&, std::span<const std::uint8_t>) { return ++sent <= 1; };
  s.left.post(s.left.send(1, 700));  // only its first packet arrives
  s.pair.run(1'000'000);
  s.right.to_state(qp::State::kError);
  s.right.reap();
  EXPECT_EQ(statuses(s.right.receives), (std::vector{Status::kFlushed}));
  EXPECT_EQ(s.right.count(AsyncEvent::kLastWqeReached), 1u);
}

TEST(Events, CommunicationIsEstablishedByTheFirstPacketBeforeRts) {
  Pair pair;
  using namespace qp;
  pair.right.to_state(State::kReset);
  Attributes a;
  a.state = State::kInit;
  a.port = 1;
  a.access_flags = memory::kRemoteWrite;
  pair.right.modify(a, kMaskState | kMaskPkeyIndex | kMaskPort | kMaskAccessFlags);
  a.state = State::kRtr;
  a.path.dlid = 1;
  a.path.port = 1;
  a.path.resolved = true;
  a.path.destination.address = pair.a.address();
  a.path_mtu = Mtu::k256;
  a.dest_qpn = pair.left.qp().number();
  a.rq_psn = PeerOptions{}.psn;
  pair.right.modify(a, kMaskState | kMaskPath | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn |
                           kMaskMaxDestRdAtomic | kMaskMinRnrTimer);
  pair.left.post(pair.left.write(1, 600, pair.right));
  ASSERT_TRUE(pair.run_until([&] { return pair.left.sends.size() == 1; }));
  EXPECT_EQ(pair.left.sends[0].status, Status::kSuccess);
  EXPECT_EQ(pair.right.count(AsyncEvent::kCommunicationEstablished), 1u);
}

}  // namespace
}  // namespace verbena::sim
