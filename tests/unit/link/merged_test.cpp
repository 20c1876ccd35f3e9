// SPDX-License-Identifier: BSD-2-Clause
// Merged packets on rings: the packet says how many it stands for, and packets are merged only if
// both ends want it.
#include "capture_fixture.hpp"
#include "link_fixture.hpp"
#include "verbena/link/capture_link.hpp"
#include "verbena/link/fault_link.hpp"
#include "verbena/link/peer_link.hpp"

namespace verbena::link::test {
namespace {

constexpr std::uint32_t kPsns = 4;

struct Context {
  explicit Context(SlotGroup& group) : node(group), self{group.local(), node.slot} {
    link = std::make_unique<PeerLink>(std::move(node.link), self, node.drops);
  }
  Node node;
  Peer self;
  std::unique_ptr<PeerLink> link;
};

class Counting final : public RxSink {
 public:
  void on_datagram(const wire::RxDatagram& d) noexcept override { psns.push_back(d.psns); }
  std::vector<std::uint32_t> psns;
};

class MergedTest : public ::testing::Test {
 protected:
  void join() {
    const int fd = SharedRing::create().value();
    b_.link->add_inbound(a_.self, SharedRing::map(fd).value());
    EXPECT_TRUE(a_.link->add_outbound(b_.self, SharedRing::map(fd).value()));
    ::close(fd);
    receive();
  }
  // Adds an ordinary packet, a merged one, and an ordinary one.
  void add_three(wire::TxBatch& batch) {
    for (std::uint32_t n = 0; n < 3; ++n) {
      const Bytes bytes = make_packet(b_.node.qp(1), n, 100);
      std::uint8_t* out = batch.begin(bytes.size());
      ASSERT_NE(out, nullptr);
      std::copy(bytes.begin(), bytes.end(), out);
      if (n == 1) {
        batch.commit(bytes.size(), to(b_.self.address));
        batch.make_merged(kPsns, bytes.size() + 36);
      } else {
        batch.commit(bytes.size(), to(b_.self.address));
      }
    }
  }
  void send_three(Link& link) {
    Batch batch;
    add_three(batch.get());
    EXPECT_EQ(batch.get().wire_packets(), 2 + kPsns);
    EXPECT_EQ(batch.get().wire_bytes(), 3 * make_packet(Qpn(1), 0, 100).size() + 36);
    ASSERT_EQ(link.send(batch.get(), a_.node.qp(1)), 3u);
  }
  void receive(Link& link) {
    for (int i = 0; i < 100; ++i) link.receive(sink_, 64);
  }
  void receive() { receive(*b_.link); }
  bool are_offered() { return a_.link->packing(b_.self).merged_most != 0; }

  SlotGroup group_a_ = open_group(own_address(0));
  SlotGroup group_b_ = open_group(own_address(1));
  Context a_{group_a_};
  Context b_{group_b_};
  Counting sink_;
};

TEST_F(MergedTest, SayForHowManyTheyStand) {
  EXPECT_FALSE(are_offered());
  join();
  EXPECT_TRUE(are_offered());
  send_three(*a_.link);
  receive();
  EXPECT_EQ(sink_.psns, (std::vector<std::uint32_t>{1, kPsns, 1}));
  EXPECT_EQ(a_.link->ring_packets_sent(), 2 + kPsns);
}

TEST_F(MergedTest, AreOfferedWhereBothEndsWantThem) {
  join();
  for (PeerLink* side : {a_.link.get(), b_.link.get()}) {
    side->set_packs(Packs::kNothing);
    receive();
    EXPECT_FALSE(are_offered());
    EXPECT_EQ(a_.link->carrier_to(b_.self), Carrier::kRing);
    send_three(*a_.link);  // this batch was made before
    side->set_packs(Packs::kMerged);
    receive();
    EXPECT_TRUE(are_offered());
  }
  EXPECT_EQ(sink_.psns.size(), 6u);
}

TEST_F(MergedTest, AreNotOfferedOnANewRingWhereTheReaderWantsNone) {
  b_.link->set_packs(Packs::kNothing);
  join();
  EXPECT_EQ(a_.link->carrier_to(b_.self), Carrier::kRing);
  EXPECT_FALSE(are_offered());
}

TEST_F(MergedTest, NeverGoByUdp) {
  join();
  Batch batch;
  add_three(batch.get());
  a_.link->remove(b_.self);
  ASSERT_EQ(a_.link->send(batch.get(), a_.node.qp(1)), 3u);
  receive();
  EXPECT_EQ(sink_.psns, (std::vector<std::uint32_t>{1, 1}));
}

TEST_F(MergedTest, AreLostToFaultsAndUnseenByCaptures) {
  join();
  auto capture = std::make_unique<CaptureLink>(std::move(a_.link), a_.self.address);
  CaptureLink* const captures = capture.get();
  DropCounters drops;
  FaultLink faults(std::move(capture), 1, drops);
  CaptureEnds ring;
  captures->start(std::move(ring.writer_end), {});
  send_three(faults);
  receive();
  EXPECT_EQ(ring.take_all().size(), 2u);
  EXPECT_EQ(sink_.psns, (std::vector<std::uint32_t>{1, kPsns, 1}));
  const FaultRule anothers[] = {{.flow = Qpn(77), .settings = {.drop_ppm = 1}}};
  faults.set_rules(anothers);
  send_three(faults);  // only another queue pair has faults
  receive();
  EXPECT_EQ(sink_.psns, (std::vector<std::uint32_t>{1, kPsns, 1, 1, kPsns, 1}));
  sink_.psns.clear();
  const FaultRule all[] = {{.settings = {.duplicate_ppm = 1'000'000}}};
  faults.set_rules(all);
  send_three(faults);
  receive();
  EXPECT_EQ(sink_.psns, (std::vector<std::uint32_t>{1, 1, 1, 1}));
}

}  // namespace
}  // namespace verbena::link::test
