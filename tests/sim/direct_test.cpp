// Payloads that stay with their sender until the responder fetches them: what goes so, what it
// counts as, and what becomes of a payload that cannot be fetched.
#include "steps.hpp"
#include "verbena/wire/bytes.hpp"

namespace verbena::sim {
namespace {

// Of 256 bytes: runs of four packets.
Faults always_direct() {
  Faults faults;
  faults.direct = 1'000'000;
  faults.packing = {300, 1024};
  return faults;
}

class Direct : public Scene {
 public:
  explicit Direct(const PeerOptions& right_options = {}) : Scene({}, right_options) {
    pair.world.faults() = always_direct();
  }
  std::uint64_t fetched() { return pair.world.fetched(); }
  std::uint64_t missed() {
    return right.node().device().counters().drops.read(DropReason::kUnreadableSender);
  }
  // What a link does when a fetch has failed: nothing is direct any more.
  void run_until_missed() {
    pair.world.faults().unreadable = 1'000'000;
    ASSERT_TRUE(pair.run_until([&] { return missed() != 0; }));
    pair.world.faults().direct = pair.world.faults().unreadable = 0;
  }
  void expect_source(Arena& arena, std::size_t length, std::size_t from = 0) {
    EXPECT_NO_THROW(expect_equal(arena.bytes().first(length),
                                 left.source.bytes().subspan(from, length), "data"));
  }
};

TEST(DirectPackets, CountAsThoseThatTheyStandFor) {
  Direct s;
  s.left.post(s.left.write(1, 2500, s.right));  // 4 + 4 + 2
  s.run_until_sent(1);
  EXPECT_EQ(statuses(s.left.sends), std::vector{Status::kSuccess});
  s.expect_source(s.right.target, 2500);
  EXPECT_EQ(s.fetched(), 3u);
  const auto& sent = s.left.qp().endpoint().counters;
  const auto& received = s.right.qp().endpoint().counters;
  EXPECT_EQ(sent.packets_sent.read(), 10u);
  EXPECT_EQ(sent.bytes_sent.read(), 2500u);
  EXPECT_EQ(received.packets_received.read(), 10u);
  EXPECT_EQ(received.bytes_received.read(), 2500u);
  // Nine headers of 12 bytes, one with a RETH, and the payload.
  const auto& port = s.left.node().device().counters();
  EXPECT_EQ(port.sent.packets(), 10u);
  EXPECT_EQ(port.sent.bytes(), 10 * 12 + 16 + 2500u);
  EXPECT_EQ(s.right.node().device().counters().packets_received.read(), 10u);
  EXPECT_EQ(s.right.node().device().counters().bytes_received.read(), 10 * 12 + 16 + 2500u);
  s.expect_unharmed();
}

TEST(DirectPackets, FillSendsReceivesWithImmediate) {
  Direct s;
  s.right.receive(7, 4096);
  Request r = s.left.send(1, 2500);
  r.opcode = WorkOpcode::kSendImmediate;
  r.immediate = 0x04030201;
  s.left.post(r);
  s.run_until_sent(1);
  ASSERT_EQ(statuses(s.right.receives), std::vector{Status::kSuccess});
  EXPECT_EQ(s.right.receives[0].byte_length, 2500u);
  EXPECT_EQ(s.right.receives[0].immediate, 0x04030201u);
  EXPECT_EQ(s.fetched(), 3u);
  s.expect_source(s.right.inbox, 2500);
}

TEST(DirectPackets, AreCheckedAsOthersAre) {
  Direct s;
  Request r = s.left.write(1, 2500, s.right);
  r.remote_address += Peer::kMemory - 2499;
  s.left.post(r);
  s.run_until_sent(1);
  EXPECT_EQ(statuses(s.left.sends), std::vector{Status::kRemoteAccess});
  EXPECT_EQ(s.fetched(), 0u);
  s.expect_unharmed();
}

TEST(DirectPackets, ForAReceiveThatIsTooShortAreRefused) {
  Direct s;
  s.right.receive(7, 900);
  s.left.post(s.left.send(1, 1024));
  s.run_until_sent(1);
  EXPECT_EQ(statuses(s.left.sends), std::vector{Status::kRemoteInvalidRequest});
  EXPECT_EQ(statuses(s.right.receives).front(), Status::kLocalLength);
  EXPECT_EQ(s.fetched(), 0u);
  s.expect_unharmed();
}

TEST(DirectPackets, OfBuffersThatAreNotOursFailAsOthersDo) {
  Direct s;
  Request r = s.left.write(1, 2500, s.right);
  r.buffers[0].key ^= 1;
  s.left.post(r);
  s.run_until_sent(1);
  EXPECT_EQ(statuses(s.left.sends), std::vector{Status::kLocalProtection});
  EXPECT_EQ(s.fetched(), 0u);
}

TEST(DirectPackets, AreMadeOfPlainMemoryOnly) {
  Direct s;
  Request paged = s.left.write(1, 2500, s.right);
  paged.buffers[0].key = paged_key(s.left, s.left.source, 0);
  s.left.post(paged);
  Request nothing = s.left.write(2, 2500, s.right);
  memory::RegionRequest region;
  region.domain = Peer::kDomain;
  region.null = true;
  nothing.buffers[0].key = *s.left.node().device().memory().register_region(region);
  nothing.remote_address += 4096;
  s.left.post(nothing);
  s.run_until_sent(2);
  EXPECT_THAT(statuses(s.left.sends), testing::Each(Status::kSuccess));
  EXPECT_EQ(s.fetched(), 0u);
  s.expect_source(s.right.target, 2500);
}

TEST(DirectPackets, ReachMemoryThatIsNotPlain) {
  Direct s;
  s.pair.world.faults().packing = {300, 8192};
  Request r = s.left.write(1, 10'000, s.right);
  r.remote_key =
      paged_key(s.right, s.right.target, memory::kLocalWrite | memory::kRemoteWrite);
  s.left.post(r);
  s.run_until_sent(1);
  EXPECT_EQ(statuses(s.left.sends), std::vector{Status::kSuccess});
  EXPECT_GT(s.fetched(), 1u);
  s.expect_source(s.right.target, 10'000);
}

TEST(DirectPackets, ThatCannotBeFetchedComeAgainWhole) {
  Direct s;
  s.left.post(s.left.write(1, 2500, s.right));
  s.run_until_missed();
  const TimeNs before = s.pair.world.now();
  ASSERT_TRUE(s.pair.run_until([&] { return s.left.sends.size() == 1; }));
  EXPECT_LT(s.pair.world.now(), before + 1'000'000) << "waited for a deadline";
  EXPECT_EQ(statuses(s.left.sends), std::vector{Status::kSuccess});
  s.expect_source(s.right.target, 2500);
  s.expect_unharmed();
}

TEST(DirectPackets, ThatCannotBeFetchedTakeOneReceiveAllTheSame) {
  Direct s;
  s.right.receive(7, 4096);
  s.right.receive(8, 4096, 4096);
  s.left.post(s.left.send(1, 2500));
  Request r = s.left.write(2, 1000, s.right);
  r.opcode = WorkOpcode::kWriteImmediate;
  s.left.post(r);
  s.run_until_missed();
  s.run_until_sent(2);
  EXPECT_EQ(ids(s.right.receives), (std::vector<std::uint64_t>{7, 8}));
  EXPECT_THAT(statuses(s.right.receives), testing::Each(Status::kSuccess));
  s.expect_source(s.right.inbox, 2500);
  s.expect_source(s.right.target, 1000);
}

// The queue pair ends while it waits for the repetition: the receive that it held is flushed.
TEST(DirectPackets, ThatNeverComeAgainLeaveAReceiveToFlush) {
  Direct s;
  s.right.receive(7, 4096);
  s.left.post(s.left.send(1, 2500));
  s.run_until_missed();
  s.right.to_state(qp::State::kError);
  s.pair.run(1'000'000);
  EXPECT_EQ(ids(s.right.receives), std::vector<std::uint64_t>{7});
  EXPECT_EQ(statuses(s.right.receives), std::vector{Status::kFlushed});
}

TEST(DirectPackets, OfATaggedMessageFindItsBuffer) {
  PeerOptions tagged;
  tagged.use_srq = true;
  tagged.max_tags = 4;
  Direct s(tagged);
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
  s.left.post(s.left.send(1, 2016));
  s.run_until_missed();
  s.pair.world.faults() = always_direct();
  s.run_until_sent(1);
  ASSERT_EQ(ids(s.right.receives), std::vector<std::uint64_t>{5});
  EXPECT_EQ(statuses(s.right.receives), std::vector{Status::kSuccess});
  EXPECT_GT(s.fetched(), 0u);
  s.expect_source(s.right.inbox, 2000, 16);
}

// Ordinary packets were answered by words that got lost; the repetition is direct and begins before
// the place where the responder stands.
TEST(DirectPackets, MayRepeatInPartWhatIsThere) {
  Direct s;
  s.pair.world.faults().direct = 0;
  s.pair.world.filter = [&](const Node& from, std::span<const std::uint8_t> bytes) {
    if (s.is_beside(bytes)) return true;
    // All answers, and the second half of the message.
    return from.index() == 0 && (bytes[11] & 0xf) < 2;
  };
  s.left.post(s.left.write(1, 1024, s.right));
  const Psn half(0xfffff2);
  ASSERT_TRUE(
      s.pair.run_until([&] { return s.right.qp().responder().expected_psn() == half; }));
  s.pair.run(1'000'000);
  s.pair.world.filter = nullptr;
  s.pair.world.faults().direct = 1'000'000;
  const TimeNs before = s.pair.world.now();
  ASSERT_TRUE(s.pair.run_until([&] { return s.left.sends.size() == 1; }));
  EXPECT_LT(s.pair.world.now(), before + 300'000'000);
  EXPECT_EQ(statuses(s.left.sends), std::vector{Status::kSuccess});
  s.expect_source(s.right.target, 1024);
  s.expect_unharmed();
}

}  // namespace
}  // namespace verbena::sim
