// SPDX-License-Identifier: BSD-2-Clause
// Memory windows and the operations on memory that are not READ, WRITE or atomics: BIND_MW,
// LOCAL_INV, SEND_WITH_INV, FLUSH, ATOMIC_WRITE, from end to end.
#include "steps.hpp"

namespace verbena::sim {
namespace {

constexpr std::uint32_t kWindowAccess = memory::kRemoteWrite | memory::kRemoteRead;

Request bind(std::uint64_t id, Peer& owner, std::uint32_t window, std::uint32_t new_key,
             std::size_t at, std::uint64_t length) {
  Request r;
  r.id = id;
  r.opcode = WorkOpcode::kBindWindow;
  r.flags = queue::kSignaled;
  r.window_key = window;
  r.window_new_key = new_key;
  r.window_region_key = owner.target.key();
  r.window_address = owner.target.address(at);
  r.window_length = length;
  r.window_access = kWindowAccess;
  return r;
}

Request invalidate(std::uint64_t id, std::uint32_t key) {
  Request r;
  r.id = id;
  r.opcode = WorkOpcode::kLocalInvalidate;
  r.flags = queue::kSignaled;
  r.immediate = key;
  return r;
}

// A scene in which the right binds a window of 256 bytes at 1024 of its target.
class WindowScene : public Scene {
 public:
  explicit WindowScene(bool type2) {
    const auto window = pair.b.device().memory().allocate_window(Peer::kDomain, type2);
    EXPECT_TRUE(window.ok());
    unbound = *window;
    key = type2 ? unbound ^ 0x5a : (unbound & ~0xffu) | ((unbound + 1) & 0xffu);
    right.post(bind(1, right, unbound, type2 ? key : 0, 1024, 256));
    EXPECT_TRUE(pair.run_until([&] { return right.sends.size() == 1; }));
    EXPECT_EQ(right.sends[0].status, Status::kSuccess);
    EXPECT_EQ(right.sends[0].opcode, CompletionOpcode::kBindWindow);
  }
  // Returns a WRITE through the window's key, `offset` bytes into the window.
  Request through(std::uint64_t id, std::size_t offset, std::uint32_t length) const {
    Request r = left.write(id, length, right);
    r.remote_address = right.target.address(1024 + offset);
    r.remote_key = key;
    return r;
  }
  void expect_open() {
    const std::size_t before = left.sends.size();
    left.post(through(before + 1, 10, 246));
    run_until_sent(before + 1);
    EXPECT_EQ(left.sends.back().status, Status::kSuccess);
    expect_equal(right.target.bytes().subspan(1034, 246), left.source.bytes().first(246), "window");
    EXPECT_EQ(right.target.bytes()[1280], 0);
  }
  void expect_shut(Request request) {
    const std::size_t before = left.sends.size();
    request.id = before + 1;
    left.post(request);
    run_until_sent(before + 1);
    EXPECT_EQ(left.sends.back().status, Status::kRemoteAccess);
    EXPECT_EQ(right.count(AsyncEvent::kQpAccessError), 1u);
    expect_unharmed();
  }
  void wait_for_right(std::size_t n) {
    ASSERT_TRUE(pair.run_until([&] { return right.sends.size() == n; }));
    EXPECT_EQ(right.sends.back().status, Status::kSuccess);
  }

  std::uint32_t unbound = 0, key = 0;
};

TEST(Windows, OpenWhatTheyAreBoundToAndNothingElse) {
  for (const bool type2 : {false, true}) {
    WindowScene s(type2);
    s.expect_open();
    s.expect_shut(s.through(0, 10, 247));  // one byte beyond
  }
}

TEST(Windows, GrantNoMoreThanTheirOwnRights) {
  for (const bool type2 : {false, true}) {
    WindowScene s(type2);
    Request r = s.left.fetch_add(0, 1, s.right);
    r.remote_address = s.right.target.address(1024);
    r.remote_key = s.key;
    s.expect_shut(r);
  }
}

TEST(Windows, AKeyFromBeforeTheBindIsStale) {
  for (const bool type2 : {false, true}) {
    WindowScene s(type2);
    Request r = s.through(0, 0, 8);
    r.remote_key = s.unbound;
    s.expect_shut(r);
  }
}

TEST(Windows, BindingAType1WindowAnewMakesItsOldKeyStale) {
  WindowScene s(false);
  s.expect_open();
  const Request stale = s.through(0, 10, 8);
  s.right.post(bind(2, s.right, s.key, 0, 2048, 64));
  s.wait_for_right(2);
  s.expect_shut(stale);
}

TEST(Windows, AType1WindowBoundToNothingIsShut) {
  WindowScene s(false);
  s.right.post(bind(2, s.right, s.key, 0, 0, 0));
  s.wait_for_right(2);
  s.expect_shut(s.through(0, 10, 8));
}

TEST(Windows, LocalInvalidateShutsAType2WindowAndItCanBeBoundAgain) {
  WindowScene s(true);
  s.expect_open();
  s.right.post(invalidate(2, s.key));
  s.right.post(bind(3, s.right, s.key, s.key ^ 0xff, 1024, 256));
  s.wait_for_right(3);
  EXPECT_EQ(ids(s.right.sends), (std::vector<std::uint64_t>{1, 2, 3}));
  const Request stale = s.through(0, 10, 8);
  s.key ^= 0xff;
  s.expect_open();
  s.expect_shut(stale);
}

TEST(Windows, SendWithInvalidateShutsTheReceiversWindowAndSaysSo) {
  WindowScene s(true);
  ASSERT_TRUE(s.right.receive(1));
  Request r = s.left.send(1, 20);
  r.opcode = WorkOpcode::kSendInvalidate;
  r.immediate = s.key;
  s.left.post(r);
  s.run_until_sent(1);
  ASSERT_EQ(s.right.receives.size(), 1u);
  EXPECT_EQ(s.right.receives[0].status, Status::kSuccess);
  EXPECT_EQ(s.right.receives[0].flags & queue::kHasInvalidated, queue::kHasInvalidated);
  EXPECT_EQ(s.right.receives[0].immediate, s.key);
  s.expect_shut(s.through(0, 10, 8));
}

TEST(Windows, AType2WindowIsOpenToItsOwnQueuePairOnly) {
  WindowScene s(true);
  Peer x(s.pair.world, s.pair.a, {}), y(s.pair.world, s.pair.b, {});
  x.bring_up(y);
  y.bring_up(x);
  Request r = s.through(1, 10, 8);
  r.buffers[0] = {x.source.address(), 8, x.source.key()};
  x.post(r);
  ASSERT_TRUE(s.pair.run_until([&] {
    x.reap();
    return !x.sends.empty();
  }));
  EXPECT_EQ(x.sends[0].status, Status::kRemoteAccess);
  s.expect_open();
}

TEST(Windows, LeaveWithTheQueuePairThatBoundThem) {
  WindowScene s(true);
  EXPECT_FALSE(s.pair.b.device().memory().deregister(s.right.target.key()).ok());  // still bound
  s.pair.b.device().destroy_qp(&s.right.qp());
  s.right.forget();
  EXPECT_TRUE(s.pair.b.device().memory().deregister(s.right.target.key()).ok());
}

TEST(Windows, ABindTakesItsPlaceInTheOrderOfRequests) {
  // The response to a READ is lost for a while. The bind behind a fence waits for it.
  WindowScene s(true);
  unsigned lost = 0;
  s.pair.world.filter = [&](const Node& from, std::span<const std::uint8_t>) {
    return &from != &s.pair.a || ++lost > 2;
  };
  s.right.post(s.right.read(2, 100, s.left));
  Request r = invalidate(3, s.key);
  r.flags |= queue::kFence;
  s.right.post(r);
  s.pair.run(1'000'000);
  EXPECT_EQ(s.right.sends.size(), 1u);
  s.wait_for_right(3);
  EXPECT_EQ(ids(s.right.sends), (std::vector<std::uint64_t>{1, 2, 3}));
}

Request flush(const Scene& s, std::uint64_t id, std::uint8_t placement, std::uint8_t selectivity,
              std::uint32_t length) {
  Request r = s.left.write(id, 0, s.right);
  r.opcode = WorkOpcode::kFlush;
  r.buffers.clear();
  r.flush_placement = placement;
  r.flush_selectivity = selectivity;
  r.flush_length = length;
  return r;
}

TEST(Flush, IsAnsweredAfterTheWritesBeforeIt) {
  Scene s;
  s.left.post(s.left.write(1, 3000, s.right));
  s.left.post(flush(s, 2, 1, 0, 3000));
  s.left.post(flush(s, 3, 2, 1, 0));
  s.run_until_sent(3);
  EXPECT_THAT(statuses(s.left.sends), testing::Each(Status::kSuccess));
  EXPECT_EQ(s.left.sends[1].opcode, CompletionOpcode::kFlush);
  s.expect_unharmed();
}

TEST(Flush, OfAWholeRegionNeedsNoAddress) {
  Scene s;
  Request r = flush(s, 1, 1, 1, 0);
  r.remote_address = 0;
  s.left.post(r);
  s.run_until_sent(1);
  EXPECT_EQ(s.left.sends[0].status, Status::kSuccess);
  r = flush(s, 2, 1, 1, 0);
  r.remote_address = 0;
  r.remote_key ^= 1;
  s.left.post(r);
  s.run_until_sent(2);
  EXPECT_EQ(s.left.sends[1].status, Status::kRemoteAccess) << "a key that does not exist";
  s.expect_unharmed();
}

TEST(Flush, NeedsAPlaceAmongTheOutstandingRequests) {
  PeerOptions right;
  right.max_dest_rd_atomic = 0;
  Scene s({}, right);
  s.left.post(flush(s, 1, 1, 0, 8));
  s.run_until_sent(1);
  EXPECT_EQ(s.left.sends[0].status, Status::kRemoteInvalidRequest);
  s.expect_unharmed();
}

TEST(Flush, OfARangeThatIsNotThereIsARemoteAccessError) {
  Scene s;
  s.left.post(flush(s, 1, 1, 0, Peer::kMemory + 1));
  s.run_until_sent(1);
  EXPECT_EQ(s.left.sends[0].status, Status::kRemoteAccess);
  s.expect_unharmed();
}

TEST(Flush, WithoutAPlacementIsAnInvalidRequest) {
  Scene s;
  s.left.post(flush(s, 1, 0, 0, 8));
  s.run_until_sent(1);
  EXPECT_EQ(s.left.sends[0].status, Status::kRemoteInvalidRequest);
  s.expect_unharmed();
}

// qp_access_flags must have each right that the placement needs.
TEST(Flush, WithOneOfTwoRightsIsAnInvalidRequest) {
  constexpr std::uint8_t kBoth = wire::kFlushGlobalVisibility | wire::kFlushPersistence;
  for (const std::uint32_t lacking :
       {memory::kFlushGlobal | memory::kFlushPersistent, std::uint32_t{memory::kFlushPersistent},
        std::uint32_t{memory::kFlushGlobal}}) {
    Scene s;
    qp::Attributes a;
    a.access_flags = PeerOptions{}.access & ~lacking;
    s.right.modify(a, qp::kMaskAccessFlags);
    s.left.post(flush(s, 1, kBoth, 0, 8));
    s.run_until_sent(1);
    EXPECT_EQ(s.left.sends[0].status, Status::kRemoteInvalidRequest) << lacking;
    EXPECT_EQ(s.right.state(), qp::State::kError) << lacking;
    s.expect_unharmed();
  }
}

TEST(AtomicWrite, WritesEightBytesAndNoMore) {
  Scene s;
  Request r = s.left.write(1, 0, s.right, 16);
  r.opcode = WorkOpcode::kAtomicWrite;
  r.buffers.clear();
  r.swap_or_add = 0x8877665544332211;
  s.left.post(r);
  s.run_until_sent(1);
  EXPECT_EQ(s.left.sends[0].status, Status::kSuccess);
  EXPECT_EQ(s.left.sends[0].opcode, CompletionOpcode::kAtomicWrite);
  for (std::size_t i = 0; i < 40; ++i) {
    const bool inside = i >= 16 && i < 24;
    EXPECT_EQ(s.right.target.bytes()[i], inside ? 0x11 * (i - 15) : 0u) << i;
  }
  r.id = 2;
  r.remote_address += 1;
  s.left.post(r);
  s.run_until_sent(2);
  EXPECT_EQ(s.left.sends[1].status, Status::kRemoteInvalidRequest);
  s.expect_unharmed();
}

// The message uses the window for large packets, and requests its ACK in time, not by a probe.
TEST(Windows, OfALongMessageMoveOnWithoutADelay) {
  Scene s;
  s.pair.world.faults().receive_capacity = 8;
  s.pair.world.faults().small_capacity = 256;
  s.left.to_state(qp::State::kReset);
  s.right.to_state(qp::State::kReset);
  s.pair.connect();
  // Small messages come first, and make the window grow.
  for (std::uint64_t id = 1; id <= 60; ++id) s.left.post(s.left.write(id, 64, s.right));
  s.run_until_sent(60);
  const std::uint64_t repeated = s.left.qp().endpoint().counters.retransmitted.read();
  s.left.post(s.left.write(61, 16'000, s.right));  // more than 60 packets
  s.run_until_sent(61);
  EXPECT_EQ(s.left.qp().endpoint().counters.retransmitted.read(), repeated);
}

// The peer's ACKs come late. An ACK of the first packets that arrives after the probe shows that
// the peer works, not that the rest was lost.
TEST(Windows, OfASlowPeerAreNotSentAgain) {
  Scene s;
  std::vector<std::vector<std::uint8_t>> answers;
  s.pair.world.filter = [&](const Node& from, std::span<const std::uint8_t> bytes) {
    const bool is_answer = &from == &s.pair.b && !s.is_beside(bytes);
    if (is_answer) answers.emplace_back(bytes.begin(), bytes.end());
    return !is_answer;
  };
  s.left.post(s.left.write(1, 10'000, s.right));  // 40 packets
  s.pair.run(1'000'000);
  ASSERT_GE(answers.size(), 2u);
  const auto& repeated = s.left.qp().endpoint().counters.retransmitted;
  ASSERT_TRUE(s.pair.run_until([&] { return repeated.read() == 1; })) << "no probe";
  s.pair.world.inject(0, s.pair.b.address(), answers.front());
  s.pair.run(100'000);
  EXPECT_EQ(repeated.read(), 1u);
  s.pair.world.filter = nullptr;
  s.run_until_sent(1);
  EXPECT_EQ(s.left.sends[0].status, Status::kSuccess);
  s.expect_unharmed();
}

// A ring tells that it is full. Packets sent into it now would be lost, and never repeated.
TEST(Windows, OfAnUnreliableConnectionWaitForRoom) {
  PeerOptions options;
  options.transport = Transport::kUc;
  Scene s(options);
  std::size_t packets = 0;
  s.pair.world.filter = [&](const Node& from, std::span<const std::uint8_t>) {
    packets += &from == &s.pair.a ? 1 : 0;
    return true;
  };
  ASSERT_TRUE(s.right.receive(1));
  s.pair.a.room = wire::Path::Room::kNone;
  s.left.post(s.left.send(1, 100));
  s.pair.run(50'000'000);
  EXPECT_EQ(packets, 0u);
  EXPECT_TRUE(s.left.sends.empty());
  s.pair.a.room = wire::Path::Room::kSome;
  s.run_until_sent(1);
  EXPECT_EQ(packets, 1u);
  EXPECT_EQ(statuses(s.right.receives), (std::vector{Status::kSuccess}));
  s.expect_unharmed();
}

// Time sets the pace if the path does not say whether it has room, and does not if it has room.
TEST(Windows, OfAnUnreliableConnectionKeepNoPaceWhereThereIsRoom) {
  for (const auto room : {wire::Path::Room::kUnknown, wire::Path::Room::kSome}) {
    PeerOptions options;
    options.transport = Transport::kUc;
    Scene s(options);
    s.pair.a.room = room;
    std::size_t at_once = 0;
    const TimeNs start = s.pair.world.now();
    s.pair.world.filter = [&](const Node&, std::span<const std::uint8_t>) {
      at_once += s.pair.world.now() == start ? 1 : 0;
      return true;
    };
    constexpr std::uint64_t kMessages = 60;  // each has four packets
    for (std::uint64_t id = 1; id <= kMessages; ++id) {
      ASSERT_TRUE(s.right.receive(id));
      s.left.post(s.left.send(id, 1000));
    }
    s.run_until_sent(kMessages);
    EXPECT_EQ(at_once == 4 * kMessages, room == wire::Path::Room::kSome) << at_once;
  }
}

}  // namespace
}  // namespace verbena::sim
