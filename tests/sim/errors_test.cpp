// SPDX-License-Identifier: BSD-2-Clause
// Each kind of failure: what both ends are told, that the rest is flushed in order, and that no
// other connection is harmed (IBTA Vol 1, 9.9 and 11.6.2).
#include "steps.hpp"

namespace verbena::sim {
namespace {

// Posts two good WRITEs, the request under test, and two more requests.
void post_around(Scene& s, Request request) {
  s.left.post(s.left.write(1, 300, s.right));
  s.left.post(s.left.write(2, 10, s.right));
  request.id = 3;
  s.left.post(std::move(request));
  s.left.post(s.left.write(4, 300, s.right));
  s.left.post(s.left.send(5, 10));
}

void post_receives(Scene& s, std::uint64_t n) {
  for (std::uint64_t id = 1; id <= n; ++id) ASSERT_TRUE(s.right.receive(id));
}

// The responder refuses the request: both ends are in error, and its receives are flushed in order.
void expect_refused(Scene& s, Status status, std::optional<AsyncEvent> event, Request request) {
  post_receives(s, 3);
  post_around(s, std::move(request));
  s.run_until_sent(5);
  expect_sends(s.left, 2, status, 5);
  EXPECT_EQ(s.left.state(), qp::State::kError);
  EXPECT_EQ(s.right.state(), qp::State::kError);
  EXPECT_EQ(ids(s.right.receives), (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_THAT(statuses(s.right.receives), testing::Each(Status::kFlushed));
  for (const AsyncEvent e :
       {AsyncEvent::kQpFatal, AsyncEvent::kQpRequestError, AsyncEvent::kQpAccessError}) {
    EXPECT_EQ(s.right.count(e), e == event ? 1u : 0u) << static_cast<int>(e);
    EXPECT_EQ(s.left.count(e), 0u);
  }
  s.expect_unharmed();
}

// The region goes between two batches. The first packet that is missing then may be of the second
// request, and the probe for the first one fails as well.
TEST(Errors, AProbeWhoseBuffersAreGoneEndsTheQueuePair) {
  for (std::uint32_t packets = 1; packets <= 64; ++packets) {
    Scene s;
    // The window is more than a batch, which does not end with a packet that requests an ACK.
    s.pair.world.faults().receive_capacity = 256;
    s.pair.world.faults().merged = 1'000'000;
    s.pair.world.faults().merged_most = 3 * 256;
    s.left.to_state(qp::State::kReset);
    s.right.to_state(qp::State::kReset);
    s.pair.connect();
    const std::uint32_t key = register_again(s.left, s.left.source, 0);
    s.pair.world.filter = [&, gone = false](const Node& from,
                                            std::span<const std::uint8_t>) mutable {
      if (&from == &s.pair.a && !std::exchange(gone, true)) {
        EXPECT_TRUE(s.pair.a.device().memory().deregister(key).ok());
      }
      return &from == &s.pair.a;  // no answer comes any more
    };
    s.left.to_state(qp::State::kSqd);  // so that all are sent at once
    for (std::uint64_t id = 1; id <= 3; ++id) {
      Request r = s.left.write(id, id == 1 ? packets * 256 : Peer::kMemory, s.right);
      r.buffers[0].key = key;
      s.left.post(std::move(r));
    }
    s.left.to_state(qp::State::kRts);
    EXPECT_TRUE(s.pair.run_until([&] { return s.left.sends.size() == 3; })) << packets;
    EXPECT_EQ(s.left.state(), qp::State::kError) << packets;
    expect_sends(s.left, 0, Status::kLocalProtection, 3);
  }
}

// An XRC receiver has no completion queue that would tell its owner.
TEST(Errors, ARequestForAnXrcSrqThatDoesNotExistIsAnEventAtItsReceiver) {
  PeerOptions sender, receiver;
  sender.transport = Transport::kXrcSend;
  receiver.transport = Transport::kXrcReceive;
  Pair pair(sender, receiver);
  Request r = pair.left.send(1, 10);
  r.remote_srqn = pair.right.srq()->number + 1;
  pair.left.post(r);
  ASSERT_TRUE(pair.run_until([&] {
    pair.left.reap();
    return pair.left.sends.size() == 1;
  }));
  EXPECT_EQ(pair.left.sends[0].status, Status::kRemoteInvalidRequest);
  EXPECT_EQ(pair.right.state(), qp::State::kError);
  EXPECT_EQ(pair.right.count(AsyncEvent::kQpRequestError), 1u);
}

TEST(Errors, TheRnrRetryCounterEndsAMessageThatNobodyReceives) {
  PeerOptions options;
  options.rnr_retry = 3;
  Scene s(options);
  s.left.post(s.left.write(1, 10, s.right));
  s.left.post(s.left.send(2, 10));
  s.left.post(s.left.write(3, 10, s.right));
  s.run_until_sent(3);
  expect_sends(s.left, 1, Status::kRnrRetryExceeded, 3);
  EXPECT_EQ(s.left.qp().endpoint().port->rnr_naks_received.read(), 4u);
  EXPECT_EQ(s.right.state(), qp::State::kRts);  // the peer did nothing wrong
  s.expect_unharmed();
}

TEST(Errors, ARepeatedRnrNakCountsOnce) {
  PeerOptions options;
  options.rnr_retry = 2;
  Scene s(options);
  s.pair.world.faults().duplicate = 1'000'000;
  s.left.post(s.left.send(1, 10));
  s.pair.run(1'000'000);  // two NAKs, one refusal
  ASSERT_TRUE(s.left.sends.empty());
  s.right.receive(1);
  s.run_until_sent(1);
  EXPECT_THAT(statuses(s.left.sends), testing::ElementsAre(Status::kSuccess));
}

TEST(Errors, AKeyThatDoesNotExistIsARemoteAccessError) {
  Scene s;
  Request r = s.left.write(3, 10, s.right);
  r.remote_key ^= 0x55;
  expect_refused(s, Status::kRemoteAccess, AsyncEvent::kQpAccessError, r);
}

TEST(Errors, AWriteBeyondTheRegionIsARemoteAccessErrorAndWritesNothing) {
  Scene s;
  Request r = s.left.write(3, 600, s.right);
  r.remote_address = s.right.target.address(Peer::kMemory - 599);
  expect_refused(s, Status::kRemoteAccess, AsyncEvent::kQpAccessError, r);
  for (std::size_t i = Peer::kMemory - 599; i < Peer::kMemory; ++i) {
    ASSERT_EQ(s.right.target.bytes()[i], 0);
  }
}

TEST(Errors, ARangeThatWrapsTheAddressSpaceIsRefused) {
  Scene s;
  Request r = s.left.read(3, 600, s.right);
  r.remote_address = ~std::uint64_t{0} - 100;
  expect_refused(s, Status::kRemoteAccess, AsyncEvent::kQpAccessError, r);
}

TEST(Errors, ARegionWithoutTheRightIsARemoteAccessError) {
  for (const WorkOpcode opcode : {WorkOpcode::kWrite, WorkOpcode::kRead, WorkOpcode::kFetchAdd,
                                  WorkOpcode::kCompareSwap, WorkOpcode::kAtomicWrite}) {
    Scene s;
    Request r = s.left.read(3, 8, s.right);
    r.opcode = opcode;
    r.remote_address = s.right.inbox.address();  // allows only local writes
    r.remote_key = s.right.inbox.key();
    expect_refused(s, Status::kRemoteAccess, AsyncEvent::kQpAccessError, r);
  }
}

TEST(Errors, AnOperationThatTheQueuePairDoesNotAllowIsAnInvalidRequest) {
  for (const WorkOpcode opcode : {WorkOpcode::kRead, WorkOpcode::kFetchAdd}) {
    PeerOptions right;
    right.access = memory::kRemoteWrite;
    Scene s({}, right);
    Request r = s.left.read(3, 8, s.right);
    r.opcode = opcode;
    expect_refused(s, Status::kRemoteInvalidRequest, AsyncEvent::kQpRequestError, r);
  }
}

TEST(Errors, AnAtomicOnACrookedAddressIsAnInvalidRequest) {
  Scene s;
  Request r = s.left.fetch_add(3, 1, s.right);
  r.remote_address += 4;
  expect_refused(s, Status::kRemoteInvalidRequest, AsyncEvent::kQpRequestError, r);
}

TEST(Errors, AReadWithoutRoomAtTheResponderIsAnInvalidRequest) {
  PeerOptions right;
  right.max_dest_rd_atomic = 0;
  Scene s({}, right);
  expect_refused(s, Status::kRemoteInvalidRequest, AsyncEvent::kQpRequestError,
                 s.left.read(3, 8, s.right));
}

TEST(Errors, SendWithInvalidateOfAKeyThatIsNoWindowIsARemoteAccessError) {
  Scene s;
  post_receives(s, 3);
  Request r = s.left.send(3, 10);
  r.opcode = WorkOpcode::kSendInvalidate;
  r.immediate = s.right.target.key();
  post_around(s, r);
  s.run_until_sent(5);
  expect_sends(s.left, 2, Status::kRemoteAccess, 5);
  EXPECT_EQ(s.right.count(AsyncEvent::kQpAccessError), 1u);
  EXPECT_EQ(ids(s.right.receives), (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_THAT(statuses(s.right.receives), testing::Each(testing::Ne(Status::kSuccess)));
  s.expect_unharmed();
}

// The requester's own mistakes: the peer sees what was posted before, and nothing else.
void expect_local(Scene& s, Status status, Request request) {
  const bool is_read = request.opcode == WorkOpcode::kRead;
  post_receives(s, 3);
  post_around(s, std::move(request));
  s.run_until_sent(5);
  expect_sends(s.left, 2, status, 5);
  EXPECT_EQ(s.left.state(), qp::State::kError);
  EXPECT_EQ(s.right.state(), qp::State::kRts);
  // The request behind a READ has left before the READ's response fails.
  EXPECT_EQ(s.right.receives.size(), is_read ? 1u : 0u);
  EXPECT_TRUE(s.pair.b.events().empty());
  expect_equal(s.right.target.bytes().first(300), s.left.source.bytes().first(300),
               "the first WRITE");
  s.expect_unharmed();
}

TEST(Errors, ALocalKeyThatDoesNotExistIsALocalProtectionError) {
  Scene s;
  Request r = s.left.send(3, 10);
  r.buffers[0].key ^= 0x55;
  expect_local(s, Status::kLocalProtection, r);
}

// A loss before a request that fails locally is repaired first, and does not fail that request.
TEST(Errors, ALossBeforeALocalMistakeIsRepairedAndTheMistakeFails) {
  for (const int lost : {1, 2, 3}) {
    Scene s;
    int from_left = 0;
    s.pair.world.filter = [&](const Node& from, std::span<const std::uint8_t>) {
      return &from != &s.pair.a || ++from_left != lost;
    };
    ASSERT_TRUE(s.right.receive(1));
    Request mistake = s.left.send(2, 10);
    mistake.buffers[0].key ^= 0x55;
    s.left.post(s.left.send(1, 600));
    s.left.post(mistake);
    s.left.post(s.left.send(3, 6));
    s.run_until_sent(3);
    expect_sends(s.left, 1, Status::kLocalProtection, 3);
    EXPECT_EQ(statuses(s.right.receives), (std::vector{Status::kSuccess})) << lost;
    s.expect_unharmed();
  }
}

TEST(Errors, ABufferBeyondItsRegionIsALocalProtectionErrorEvenInALaterPacket) {
  Scene s;
  Request r = s.left.write(3, 600, s.right);
  r.remote_address += 8192;
  r.buffers[0].address = s.left.source.address(Peer::kMemory - 599);
  expect_local(s, Status::kLocalProtection, r);
}

TEST(Errors, AReadIntoARegionWithoutLocalWriteIsALocalProtectionError) {
  Scene s;
  Request r = s.left.read(3, 10, s.right);
  r.buffers[0] = {s.left.source.address(), 10, s.left.source.key()};
  expect_local(s, Status::kLocalProtection, r);
}

TEST(Errors, InvalidatingARegionsKeyIsALocalOperationError) {
  Scene s;
  Request r;
  r.opcode = WorkOpcode::kLocalInvalidate;
  r.flags = queue::kSignaled;
  r.immediate = s.left.target.key();
  expect_local(s, Status::kLocalQpOperation, r);
}

TEST(Errors, BindingAWindowThatDoesNotExistIsABindError) {
  Scene s;
  Request r;
  r.opcode = WorkOpcode::kBindWindow;
  r.flags = queue::kSignaled;
  r.window_key = s.left.target.key();
  r.window_region_key = s.left.target.key();
  r.window_address = s.left.target.address();
  r.window_length = 10;
  expect_local(s, Status::kWindowBind, r);
}

TEST(Errors, AMessageLongerThanItsReceiveFailsOnBothEnds) {
  for (const std::uint32_t room : {0u, 10u, 256u, 599u}) {
    Scene s;
    ASSERT_TRUE(s.right.receive(1, room));
    ASSERT_TRUE(s.right.receive(2));
    s.left.post(s.left.send(1, 600));
    s.left.post(s.left.send(2, 6));
    s.run_until_sent(2);
    expect_sends(s.left, 0, Status::kRemoteInvalidRequest, 2);
    EXPECT_EQ(ids(s.right.receives), (std::vector<std::uint64_t>{1, 2}));
    EXPECT_EQ(statuses(s.right.receives), (std::vector{Status::kLocalLength, Status::kFlushed}));
    for (std::size_t i = room; i < 700; ++i) ASSERT_EQ(s.right.inbox.bytes()[i], 0);
    s.expect_unharmed();
  }
}

TEST(Errors, AReceiveInUnusableMemoryFailsOnBothEnds) {
  Scene s;
  ASSERT_TRUE(s.right.receive_into(1, {s.right.source.address(), 1000, s.right.source.key()}));
  s.left.post(s.left.send(1, 600));
  s.run_until_sent(1);
  expect_sends(s.left, 0, Status::kRemoteOperation, 1);
  EXPECT_EQ(statuses(s.right.receives), (std::vector{Status::kLocalProtection}));
  s.expect_unharmed();
}

TEST(Errors, ADatagramWithoutUsableReceiveIsNotAnswered) {
  for (const Transport transport : {Transport::kUd, Transport::kUc}) {
    PeerOptions options;
    options.transport = transport;
    Scene s(options);
    std::size_t answers = 0;
    s.pair.world.filter = [&](const Node& from, std::span<const std::uint8_t>) {
      answers += &from == &s.pair.b ? 1 : 0;
      return true;
    };
    ASSERT_TRUE(s.right.receive_into(1, {s.right.source.address(), 1000, s.right.source.key()}));
    queue::AddressVector address;
    address.destination.address = s.pair.b.address();
    Request r = s.left.send(1, 100);
    r.address = &address;
    r.remote_qpn = s.right.qp().number().value();
    r.remote_qkey = 0x11111111;
    s.left.post(r);
    s.run_until_sent(1);
    EXPECT_EQ(statuses(s.left.sends), (std::vector{Status::kSuccess}));
    EXPECT_EQ(statuses(s.right.receives), (std::vector{Status::kLocalProtection}));
    EXPECT_EQ(answers, 0u) << "an unreliable transport has no NAK";
    s.pair.world.filter = nullptr;
    s.expect_unharmed();
  }
}

TEST(Errors, ARegionThatGoesAwayUnderARepeatedReadIsARemoteAccessError) {
  Scene s;
  bool lost = false;
  s.pair.world.filter = [&](const Node& from, std::span<const std::uint8_t>) {
    if (&from != &s.pair.b || lost) return true;
    lost = true;  // the only response
    EXPECT_TRUE(s.pair.b.device().memory().deregister(s.right.target.key()).ok());
    return false;
  };
  s.left.post(s.left.read(1, 100, s.right));
  s.left.post(s.left.read(2, 100, s.right));
  s.run_until_sent(2);
  expect_sends(s.left, 0, Status::kRemoteAccess, 2);
}

// The NAK itself may be lost. Then the requester's retry counter ends the message, because a
// responder in error is silent. Everything else still holds.
TEST(Errors, UnderLossEveryRequestStillCompletesOnceAndInOrder) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Scene s({}, {}, seed);
    s.pair.world.faults().drop = s.pair.world.faults().duplicate = 150'000;
    s.pair.world.faults().reorder = 150'000;
    post_receives(s, 3);
    Request bad = s.left.write(3, 600, s.right);
    bad.remote_key ^= 0x55;
    if (seed % 2 == 0) bad.opcode = WorkOpcode::kRead;
    post_around(s, bad);
    s.run_until_sent(5);
    ASSERT_GE(s.left.sends.size(), 3u);
    const Status how = s.left.sends[2].status;
    if (s.left.sends[0].status == Status::kSuccess && s.left.sends[1].status == Status::kSuccess) {
      EXPECT_TRUE(how == Status::kRemoteAccess || how == Status::kRetryExceeded) << seed;
      expect_sends(s.left, 2, how, 5);
    } else {
      // The acknowledgements before the NAK were lost with it.
      const std::size_t good = s.left.sends[0].status == Status::kSuccess ? 1 : 0;
      expect_sends(s.left, good, Status::kRetryExceeded, 5);
    }
    EXPECT_EQ(s.right.state(), qp::State::kError);
    EXPECT_EQ(ids(s.right.receives), (std::vector<std::uint64_t>{1, 2, 3}));
    s.expect_unharmed();
  }
}

}  // namespace
}  // namespace verbena::sim
