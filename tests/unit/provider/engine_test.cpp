// SPDX-License-Identifier: BSD-2-Clause
// Two engines over UDP, and hosts that note what they are asked. There is no daemon and no verb.
#include "verbena/engine/engine.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "noting_host.hpp"
#include "verbena/link/clock.hpp"
#include "verbena/link/slot_group.hpp"

namespace verbena::provider {
namespace {

constexpr std::uint32_t kAll = memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead;

// An engine with memory, a completion queue and a queue pair.
struct Side {
  explicit Side(std::uint32_t host)
      : address(own_address(host)),
        group(std::move(link::SlotGroup::open(address, {})).value()),
        slot(group.add_slot().value()),
        engine(notes, options()),
        cq({.capacity = 64, .cookie = this}, engine),
        bytes(4096) {
    memory::RegionRequest r;
    r.domain = 1;
    r.host_address = r.base = reinterpret_cast<std::uint64_t>(bytes.data());
    r.length = bytes.size();
    r.access = kAll;
    key = *engine.device().memory().register_region(r);
    qp::QueuePairOptions o;
    o.transport = Transport::kRc;
    o.domain = 1;
    o.send_cq = o.receive_cq = &cq;
    o.send = {16, 2, 64, false};
    o.receive_capacity = 16;
    qp = engine.device().create_qp(o);
  }
  ~Side() { engine.device().destroy_qp(qp); }

  EngineOptions options() {
    EngineOptions o;
    o.device.slot = slot;
    o.device.address = address;
    o.device.plan.subnet = 0x7f800000;
    o.links.self = {address, slot};
    o.links.receiver.reset(::dup(group.fd(slot)));
    o.has_rings = false;
    return o;
  }
  void connect(Side& peer) {
    using namespace qp;
    const auto modify = [&](const Attributes& a, std::uint32_t mask) {
      const auto refused = engine.device().modify_qp(*qp, a, mask, link::monotonic_now_ns());
      ASSERT_FALSE(refused) << refused->reason;
    };
    Attributes a;
    a.state = State::kInit;
    a.port = 1;
    a.access_flags = kAll & ~1u;
    modify(a, kMaskState | kMaskPkeyIndex | kMaskPort | kMaskAccessFlags);
    a.state = State::kRtr;
    a.path.dlid = 2;
    a.path.port = 1;
    a.path.resolved = true;
    a.path.destination.address = peer.address;
    a.path_mtu = Mtu::k1024;
    a.dest_qpn = peer.qp->number();
    a.max_dest_rd_atomic = 4;
    a.min_rnr_timer = 1;
    modify(a, kMaskState | kMaskPath | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn |
                  kMaskMaxDestRdAtomic | kMaskMinRnrTimer);
    a.state = State::kRts;
    a.timeout = 18;
    a.retry_count = a.rnr_retry = 7;
    a.max_rd_atomic = 4;
    modify(a, kMaskState | kMaskSqPsn | kMaskTimeout | kMaskRetryCount | kMaskRnrRetry |
                  kMaskMaxRdAtomic);
    posts.has_new_peer = true;
  }
  int write_to(Side& peer) {
    const queue::Sge sge{reinterpret_cast<std::uint64_t>(bytes.data()), 3000, key};
    queue::SendRequest r;
    r.opcode = queue::WorkOpcode::kWrite;
    r.flags = queue::kSignaled;
    r.sges = {&sge, 1};
    r.remote_address = reinterpret_cast<std::uint64_t>(peer.bytes.data());
    r.remote_key = peer.key;
    return engine.post(*qp, posts,
                       [&] { return qp->post_send(r) == requester::Posted::kOk ? 0 : EINVAL; });
  }

  IpAddress address;
  link::SlotGroup group;
  std::uint32_t slot;
  NotingHost notes;
  Engine engine;
  queue::CompletionQueue cq;
  std::vector<std::uint8_t> bytes;
  std::uint32_t key = 0;
  qp::QueuePair* qp = nullptr;
  PostState posts;
};

class EngineTest : public testing::Test {
 protected:
  EngineTest() {
    left.connect(right);
    right.connect(left);
    std::memset(left.bytes.data(), 0x5a, left.bytes.size());
  }
  // Calls `drive` until the left one's request is complete.
  template <typename Drive>
  bool completes(Drive&& drive) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    queue::Completion done;
    while (!left.cq.poll_one(done)) {
      if (std::chrono::steady_clock::now() > end) return false;
      drive();
    }
    return done.status == queue::Status::kSuccess;
  }
  // Called only while no thread drives the right engine, because nothing else orders its writes
  // before this read.
  bool has_arrived() { return std::memcmp(left.bytes.data(), right.bytes.data(), 3000) == 0; }

  Side left{1}, right{2};
};

TEST_F(EngineTest, IsDrivenByPollsAlone) {
  ASSERT_EQ(left.write_to(right), 0);
  EXPECT_TRUE(completes([&] {
    left.engine.drive();
    right.engine.drive();
  }));
  EXPECT_TRUE(has_arrived());
}

TEST_F(EngineTest, ItsThreadAnswersForWhoDoesNotPoll) {
  ASSERT_EQ(right.engine.start(), 0);
  ASSERT_EQ(left.write_to(right), 0);
  EXPECT_TRUE(completes([&] { left.engine.drive(); }));
  right.engine.stop();
  EXPECT_TRUE(has_arrived());
}

TEST_F(EngineTest, ItsHostHearsOfTheFirstPostToAPeer) {
  EXPECT_EQ(left.notes.new_peers, 0);
  ASSERT_EQ(left.write_to(right), 0);
  ASSERT_EQ(left.write_to(right), 0);
  EXPECT_EQ(left.notes.new_peers, 1);
  EXPECT_EQ(left.notes.new_peer.address, right.address);
  EXPECT_EQ(left.notes.new_peer.slot, right.slot);
  EXPECT_EQ(right.notes.new_peers, 0);
}

TEST_F(EngineTest, ItsHostHearsOfACompletionThatIsWaitedFor) {
  left.cq.arm(false);
  ASSERT_EQ(left.write_to(right), 0);
  EXPECT_TRUE(completes([&] {
    left.engine.drive();
    right.engine.drive();
  }));
  EXPECT_EQ(left.notes.completion_event, &left);
}

TEST_F(EngineTest, OnceItHasFailedNobodyDrivesIt) {
  ASSERT_EQ(right.write_to(left), 0);
  EXPECT_TRUE(left.engine.mark_failed());
  EXPECT_FALSE(left.engine.mark_failed());
  EXPECT_TRUE(left.engine.has_failed());
  EXPECT_EQ(left.engine.drive(), 0u);
  const std::uint64_t sent = left.engine.device().counters().sent.packets();
  EXPECT_EQ(left.write_to(right), 0);
  EXPECT_EQ(left.engine.device().counters().sent.packets(), sent);
}

TEST_F(EngineTest, AsksItsHostOnceAboutAPeerAndPassesOnWhatIsTold) {
  const TimeNs now = link::monotonic_now_ns();
  const wire::Destination to{.address = right.address};
  const auto path = left.engine.path_to(to, right.qp->number());
  path->inquire(now);
  path->inquire(now);
  EXPECT_EQ(left.notes.questions, 1);
  using Standing = PeerReport::Standing;
  EXPECT_EQ(path->report(now).standing, Standing::kAsked);
  PeerReport news;
  news.standing = Standing::kStopped;
  news.pid = 42;
  left.engine.reports().told(right.address, right.qp->number(), news, now + 1);
  EXPECT_EQ(path->report(now).standing, Standing::kStopped);
  EXPECT_EQ(path->report(now).pid, 42u);
}

// A ring goes and another one comes. Paths that existed before use the new ring.
TEST_F(EngineTest, APathIsRenewedWhenRingsComeAndGo) {
  using Room = wire::Path::Room;
  link::PeerLink& peers = left.engine.links().peers();
  const link::Peer peer{right.address, right.slot};
  const link::Peer other{right.address, right.slot + 1};
  const auto path = left.engine.path_to({.address = right.address}, right.qp->number());
  const auto add_ring = [&](const link::Peer& to) {
    const int fd = link::SharedRing::create(64 * 1024).value();
    EXPECT_TRUE(peers.add_outbound(to, link::SharedRing::map(fd).value()));
    ::close(fd);
  };
  const auto expect_udp = [&] {
    EXPECT_EQ(path->packing().merged_most, 0u);
    EXPECT_EQ(path->room(1), Room::kUnknown);
    EXPECT_FALSE(path->reading());
  };
  const auto expect_ring = [&] {
    EXPECT_NE(path->packing().merged_most, 0u);
    EXPECT_EQ(path->room(1), Room::kSome);
    EXPECT_TRUE(path->reading());
  };
  expect_udp();
  add_ring(other);
  expect_udp();
  for (int round = 0; round < 3; ++round) {
    add_ring(peer);
    expect_ring();
    peers.remove(peer);
    expect_udp();
  }
  peers.remove(other);
  add_ring(peer);
  expect_ring();
  left.engine.links().peers().set_packs(link::Packs::kNothing);
  EXPECT_EQ(path->packing().merged_most, 0u);
}

// What is sent by UDP while the peer cannot accept its ring yet may be lost.
TEST_F(EngineTest, APathKnowsThatItsRingMayStillCome) {
  using Room = wire::Path::Room;
  left.notes.awaits_ring = true;
  const auto path = left.engine.path_to({.address = right.address}, right.qp->number());
  const auto far = left.engine.path_to({.address = IpAddress::v4(0x0a000001)}, right.qp->number());
  EXPECT_EQ(path->room(1), Room::kSoon);
  EXPECT_EQ(far->room(1), Room::kUnknown);
  left.notes.awaits_ring = false;
  EXPECT_EQ(path->room(2), Room::kUnknown);
}

}  // namespace
}  // namespace verbena::provider
