// SPDX-License-Identifier: BSD-2-Clause
// Packets that carry the payloads of several. They count as the packets that they stand for, and
// are checked like them. A path may stop taking them at any time.
#include <cstring>

#include "steps.hpp"
#include "verbena/wire/bytes.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::sim {
namespace {

// A scene in which four packets of 256 bytes travel as one.
class Merged : public Scene {
 public:
  explicit Merged(const PeerOptions& options = {}) : Merged(options, options) {}
  Merged(const PeerOptions& left_options, const PeerOptions& right_options)
      : Scene(left_options, right_options) {
    pair.world.faults().merged = 1'000'000;
    pair.world.faults().merged_most = 1024;
  }
  // Notes for each data packet from the left how many PSNs it takes.
  void watch() {
    pair.world.filter = [this](const Node& from, std::span<const std::uint8_t> bytes) {
      const auto packet = wire::parse_packet(bytes);
      const bool is_of_left = packet.ok() && packet->bth.dest_qp == right.qp().number();
      if (from.index() != 0 || !is_of_left || !packet->row->payload) return true;
      seen.push_back(pair.world.seen().merged);
      return !lose || !lose(seen.size());
    };
  }
  void expect_source(Arena& arena, std::size_t length) {
    EXPECT_NO_THROW(
        expect_equal(arena.bytes().first(length), left.source.bytes().first(length), "data"));
  }
  std::vector<std::uint32_t> seen;
  std::function<bool(std::size_t)> lose;
};

TEST(MergedPackets, CountAsThoseThatTheyStandFor) {
  Merged s;
  s.watch();
  s.left.post(s.left.write(1, 2499, s.right));
  s.run_until_sent(1);
  EXPECT_EQ(statuses(s.left.sends), std::vector{Status::kSuccess});
  EXPECT_EQ(s.seen, (std::vector<std::uint32_t>{4, 4, 2}));
  s.expect_source(s.right.target, 2499);
  const auto& sent = s.left.qp().endpoint().counters;
  const auto& received = s.right.qp().endpoint().counters;
  EXPECT_EQ(sent.packets_sent.read(), 10u);
  EXPECT_EQ(sent.bytes_sent.read(), 2499u);
  EXPECT_EQ(received.packets_received.read(), 10u);
  EXPECT_EQ(received.bytes_received.read(), 2499u);
  // Ten headers of 12 bytes, a RETH, the payload and one byte of pad.
  const auto& port = s.left.node().device().counters();
  EXPECT_EQ(port.sent.packets(), 10u);
  EXPECT_EQ(port.sent.bytes(), 10 * 12 + 16 + 2500u);
  EXPECT_EQ(s.right.node().device().counters().received.packets.read(), 10u);
  EXPECT_EQ(s.right.node().device().counters().received.bytes.read(), 10 * 12 + 16 + 2500u);
  s.expect_unharmed();
}

// A message alone is sent in two halves, so that one half is read while the other is written. A
// message that others follow is one packet, because they are written while it is read.
TEST(MergedPackets, OfAMessageAreTwoOrIfOthersFollowOne) {
  constexpr std::uint32_t kLength = 16 * 1024;
  Merged s;
  s.pair.world.faults().merged_most = wire::kMergedMost;
  s.watch();
  s.left.post(s.left.write(1, kLength, s.right));
  s.run_until_sent(1);
  EXPECT_EQ(s.seen, (std::vector<std::uint32_t>{32, 32}));
  s.seen.clear();
  {
    const Guard guard(s.left.qp().lock());
    for (const std::uint64_t id : {2u, 3u}) {
      Request request = s.left.write(id, kLength, s.right);
      request.sges = request.buffers;
      ASSERT_EQ(s.left.qp().post_send(request), requester::Posted::kOk);
    }
  }
  s.left.node().device().doorbell(s.left.qp(), s.pair.world.now());
  s.run_until_sent(3);
  EXPECT_EQ(s.seen, (std::vector<std::uint32_t>{64, 32, 32}));
  EXPECT_EQ(statuses(s.left.sends), std::vector(3, Status::kSuccess));
  s.expect_source(s.right.target, kLength);
  s.expect_unharmed();
}

TEST(MergedPackets, FillSendsReceivesWithImmediate) {
  Merged s;
  s.right.receive(7, 4096);
  Request r = s.left.send(1, 1024);
  r.opcode = WorkOpcode::kSendImmediate;
  r.immediate = 0x04030201;
  s.left.post(r);
  s.run_until_sent(1);
  ASSERT_EQ(statuses(s.right.receives), std::vector{Status::kSuccess});
  EXPECT_EQ(s.right.receives[0].byte_length, 1024u);
  EXPECT_EQ(s.right.receives[0].immediate, 0x04030201u);
  EXPECT_EQ(s.pair.world.lost(), 0u);
  s.expect_source(s.right.inbox, 1024);
}

TEST(MergedPackets, AreOfReliableConnectionsOnly) {
  PeerOptions options;
  options.transport = Transport::kUc;
  Merged s(options);
  s.watch();
  s.left.post(s.left.write(1, 2500, s.right));
  s.run_until_sent(1);
  s.pair.run(1'000'000);
  EXPECT_EQ(s.seen, std::vector<std::uint32_t>(10, 1));
  s.expect_source(s.right.target, 2500);
}

TEST(MergedPackets, AreCheckedAsOthersAre) {
  Merged s;
  Request r = s.left.write(1, 2500, s.right);
  r.remote_address += Peer::kMemory - 2499;
  s.left.post(r);
  s.run_until_sent(1);
  EXPECT_EQ(statuses(s.left.sends), std::vector{Status::kRemoteAccess});
  s.expect_unharmed();
}

TEST(MergedPackets, ForAReceiveThatIsTooShortAreRefused) {
  Merged s;
  s.right.receive(7, 900);
  s.left.post(s.left.send(1, 1024));
  s.run_until_sent(1);
  EXPECT_EQ(statuses(s.left.sends), std::vector{Status::kRemoteInvalidRequest});
  EXPECT_EQ(statuses(s.right.receives).front(), Status::kLocalLength);
  s.expect_unharmed();
}

// The second merged packet is lost. By then the path takes only ordinary packets, which repeat it.
TEST(MergedPackets, ComeAgainInPiecesWhereThePathTakesThemNoMore) {
  Merged s;
  s.watch();
  s.lose = [&](std::size_t count) {
    if (count != 2 || s.pair.world.faults().merged == 0) return false;
    s.pair.world.faults().merged = 0;
    return true;
  };
  s.left.post(s.left.write(1, 2048, s.right));
  s.run_until_sent(1);
  EXPECT_EQ(statuses(s.left.sends), std::vector{Status::kSuccess});
  EXPECT_EQ(s.seen, (std::vector<std::uint32_t>{4, 4, 1, 1, 1, 1}));
  s.expect_source(s.right.target, 2048);
  s.expect_unharmed();
}

// Packets whose length does not fit the number of packets that they claim to stand for.
TEST(MergedPackets, ThatAreNotAsLongAsTheySayAreRefused) {
  for (const std::uint32_t psns : {3u, 5u, 65535u}) {
    Merged s;
    s.watch();
    s.lose = [&](std::size_t count) {
      if (count != 1) return false;
      s.pair.world.inject(1, s.left.node().address(), s.pair.world.seen().bytes, psns);
      return true;
    };
    s.left.post(s.left.write(1, 1024, s.right));
    s.run_until_sent(1);
    EXPECT_EQ(statuses(s.left.sends), std::vector{Status::kRemoteInvalidRequest}) << psns;
    s.expect_unharmed();
  }
}

TEST(MergedPackets, OfOtherOperationsAreDropped) {
  Merged s;
  bool is_done = false;
  s.pair.world.filter = [&](const Node& from, std::span<const std::uint8_t> bytes) {
    const auto packet = wire::parse_packet(bytes);
    if (is_done || from.index() != 0 || packet->row->operation != wire::Operation::kReadRequest) {
      return true;
    }
    is_done = true;
    s.pair.world.inject(1, from.address(), bytes, 2);
    return false;
  };
  s.left.post(s.left.read(1, 100, s.right));
  s.run_until_sent(1);
  EXPECT_EQ(statuses(s.left.sends), std::vector{Status::kSuccess});
  EXPECT_EQ(s.right.node().device().counters().drops.read(DropReason::kMalformed), 1u);
  s.expect_unharmed();
}

TEST(MergedPackets, OfATaggedMessageFindItsBuffer) {
  PeerOptions tagged;
  tagged.use_srq = true;
  tagged.max_tags = 4;
  Merged s({}, tagged);
  const queue::Sge sge{s.right.inbox.address(), 2048, s.right.inbox.key()};
  queue::TagOperation op;
  op.receive_id = 5;
  op.tag = 0x1234;
  op.mask = ~std::uint64_t{0};
  op.sges = {&sge, 1};
  ASSERT_EQ(s.right.srq()->tags->post(op), queue::TagMatching::Posted::kOk);
  std::uint8_t* header = s.left.source.bytes().data();
  std::memset(header, 0, 16);
  header[0] = 3;  // eager
  wire::store_be64(header + 8, 0x1234);
  s.watch();
  s.left.post(s.left.send(1, 2016));
  s.run_until_sent(1);
  ASSERT_EQ(ids(s.right.receives), std::vector<std::uint64_t>{5});
  EXPECT_EQ(statuses(s.right.receives), std::vector{Status::kSuccess});
  EXPECT_EQ(s.seen.front(), 4u);
  EXPECT_NO_THROW(expect_equal(s.right.inbox.bytes().first(2000),
                               s.left.source.bytes().subspan(16, 2000), "data"));
}

// The ACKs of ordinary packets were lost. The repetition is merged, and begins before the PSN that
// the responder expects.
TEST(MergedPackets, MayRepeatInPartWhatIsThere) {
  Merged s;
  s.pair.world.faults().merged = 0;
  s.pair.world.filter = [&](const Node& from, std::span<const std::uint8_t> bytes) {
    if (s.is_beside(bytes)) return true;
    // Loses all answers, and the second half of the message.
    return from.index() == 0 && (bytes[11] & 0xf) < 2;
  };
  s.left.post(s.left.write(1, 1024, s.right));
  const Psn half(0xfffff2);
  ASSERT_TRUE(s.pair.run_until([&] { return s.right.qp().responder().expected_psn() == half; }));
  s.pair.run(1'000'000);
  s.pair.world.filter = nullptr;
  s.pair.world.faults().merged = 1'000'000;
  const TimeNs before = s.pair.world.now();
  ASSERT_TRUE(s.pair.run_until([&] { return s.left.sends.size() == 1; }));
  EXPECT_LT(s.pair.world.now(), before + 300'000'000);
  EXPECT_EQ(statuses(s.left.sends), std::vector{Status::kSuccess});
  s.expect_source(s.right.target, 1024);
  s.expect_unharmed();
}

}  // namespace
}  // namespace verbena::sim
