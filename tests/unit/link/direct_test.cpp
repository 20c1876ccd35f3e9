// Payloads that stay with their sender: between real processes, with a real probe; and that the way
// is left as soon as it does not lead there.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <vector>

#include "link_fixture.hpp"
#include "verbena/link/capture_link.hpp"
#include "verbena/link/fault_link.hpp"
#include "verbena/link/peer_link.hpp"
#include "verbena/wire/packet.hpp"

namespace verbena::link::test {
namespace {

constexpr std::size_t kLength = 100'000;

std::uint8_t pattern(std::size_t i) { return static_cast<std::uint8_t>(i * 31 + i / 251); }

// A WRITE of 25 packets whose payload lies there.
void add_direct(wire::TxBatch& batch, Qpn to_qp, const IpAddress& address, std::uint64_t at,
                std::uint64_t length = kLength) {
  const wire::OpcodeRow& row = wire::row_of(wire::Opcode::kRcWriteOnly);
  wire::DirectPayload direct;
  direct.psns = 25;
  direct.add({at, length});
  const std::size_t size = row.header_bytes + direct.size();
  std::uint8_t* out = batch.begin(size);
  ASSERT_NE(out, nullptr);
  wire::PacketHeaders headers;
  headers.bth.dest_qp = to_qp;
  wire::write_headers(static_cast<std::uint8_t>(wire::Opcode::kRcWriteOnly), headers, out);
  direct.write_to(out + row.header_bytes);
  batch.commit(size, to(address));
  batch.make_direct(direct.psns, direct.wire_bytes(row));
}

// Fetches what comes direct, as an engine would.
class Fetcher final : public RxSink {
 public:
  void on_datagram(const wire::RxDatagram& d) noexcept override {
    if (d.sender == nullptr) {
      ++whole;
      return;
    }
    const auto packet = wire::parse_packet(d.bytes);
    const auto direct = wire::DirectPayload::parse(*packet->row, packet->payload);
    bytes.assign(direct->length, 0);
    const wire::FetchTarget targets[] = {{bytes.data(), 5}, {bytes.data() + 5, bytes.size() - 5}};
    const bool ok = d.sender->fetch(targets, std::span(direct->ranges).first(direct->count),
                                     direct->witness);
    ++(ok ? fetched : missed);
  }
  void expect_pattern() const {
    ASSERT_EQ(bytes.size(), kLength);
    for (std::size_t i = 0; i < kLength; ++i) ASSERT_EQ(bytes[i], pattern(i)) << i;
  }
  int whole = 0;
  int fetched = 0;
  int missed = 0;
  std::vector<std::uint8_t> bytes;
};

struct Context {
  explicit Context(SlotGroup& group) : node(group), self{group.local(), node.slot} {
    link = std::make_unique<PeerLink>(std::move(node.link), self, node.drops);
  }
  Node node;
  Peer self;
  std::unique_ptr<PeerLink> link;
};

class DirectTest : public ::testing::Test {
 protected:
  DirectTest() {
    for (std::size_t i = 0; i < kLength; ++i) memory_[i] = pattern(i);
  }
  void join(std::uint32_t pid) {
    const int fd = SharedRing::create().value();
    b_.link->add_inbound(a_.self, SharedRing::map(fd).value(), pid);
    EXPECT_TRUE(a_.link->add_outbound(b_.self, SharedRing::map(fd).value()));
    ::close(fd);
  }
  void send_whole() {
    Batch batch;
    batch.add(make_packet(b_.node.qp(1), 1, 100), to(b_.self.address));
    ASSERT_EQ(a_.link->send(batch.get(), a_.node.qp(1)), 1u);
  }
  void send_direct(Link& link, std::uint64_t at) {
    Batch batch;
    add_direct(batch.get(), b_.node.qp(1), b_.self.address, at);
    ASSERT_EQ(link.send(batch.get(), a_.node.qp(1)), 1u);
  }
  void send_direct() { send_direct(*a_.link, address()); }
  std::vector<bool> send_many(int count);
  std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(memory_.data()); }
  void receive(Link& link) {
    for (int i = 0; i < 100; ++i) link.receive(sink_, 64);
  }
  void receive() { receive(*b_.link); }
  bool is_direct() { return a_.link->carrier_to(b_.self) == Carrier::kDirectRing; }

  std::vector<std::uint8_t> memory_ = std::vector<std::uint8_t>(kLength);
  SlotGroup group_a_ = open_group(own_address(0));
  SlotGroup group_b_ = open_group(own_address(1));
  Context a_{group_a_};
  Context b_{group_b_};
  Fetcher sink_;
};

TEST_F(DirectTest, IsOfferedOnceTheReaderHasTried) {
  join(static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(a_.link->carrier_to(b_.self), Carrier::kRing);
  EXPECT_GT(a_.link->packing(b_.self).direct_least, kLength);
  send_whole();
  receive();
  ASSERT_TRUE(is_direct());
  EXPECT_LE(a_.link->packing(b_.self).direct_least, kLength);
  send_direct();
  receive();
  EXPECT_EQ(sink_.fetched, 1);
  sink_.expect_pattern();
  EXPECT_EQ(a_.link->ring_packets_sent(), 26u);
  EXPECT_EQ(a_.link->statistics().direct_sent.read(), 1u);
}

TEST_F(DirectTest, IsNotOfferedForAProcessThatIsNotTheWriter) {
  const pid_t other = ::fork();  // has no ring
  if (other == 0) {
    for (;;) ::pause();
  }
  for (const std::uint32_t pid : {0u, static_cast<std::uint32_t>(other), 0x3fffffffu}) {
    join(pid);
    send_whole();
    receive();
    EXPECT_EQ(a_.link->carrier_to(b_.self), Carrier::kRing) << pid;
    a_.link->remove(b_.self);
    b_.link->remove(a_.self);
    receive();
  }
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  EXPECT_EQ(sink_.whole, 3);
}

TEST_F(DirectTest, ThatNobodyAllowedBreaksTheRing) {
  join(0);
  send_direct();
  receive();
  EXPECT_EQ(sink_.fetched + sink_.missed, 0);
  EXPECT_EQ(b_.link->statistics().rings_broken.read(), 1u);
  EXPECT_EQ(a_.link->carrier_to(b_.self), Carrier::kUdp);
}

// What decides about the memory of two processes is never read where others can write.
TEST_F(DirectTest, IsShort) {
  join(static_cast<std::uint32_t>(::getpid()));
  send_whole();
  receive();
  ASSERT_TRUE(is_direct());
  Batch batch;
  batch.add(make_packet(b_.node.qp(1), 1, 260), to(b_.self.address));
  batch.get().make_direct(1, 260);
  a_.link->send(batch.get(), a_.node.qp(1));
  receive();
  EXPECT_EQ(sink_.whole, 1);
  EXPECT_EQ(b_.link->statistics().rings_broken.read(), 1u);
}

// Large payloads, as the writer may send them; returns which of them went by the ring.
std::vector<bool> DirectTest::send_many(int count) {
  constexpr std::size_t kPart = 4096;
  std::vector<bool> by_ring;
  for (int i = 0; i < count; ++i) {
    by_ring.push_back(a_.link->packing(b_.self).direct_least > kLength);
    if (by_ring.back()) {
      Batch batch;
      for (std::uint32_t part = 0; part <= kLength / kPart; ++part) {
        const auto opcode = part == 0                 ? wire::Opcode::kRcWriteFirst
                            : part == kLength / kPart ? wire::Opcode::kRcWriteLast
                                                      : wire::Opcode::kRcWriteMiddle;
        batch.add(make_packet(b_.node.qp(1), part, kPart, opcode), to(b_.self.address));
        if (part % 8 != 7 && part != kLength / kPart) continue;
        EXPECT_EQ(a_.link->send(batch.get(), a_.node.qp(1)), batch.get().size());
        batch.get().clear();
      }
    } else {
      send_direct();
    }
    receive();
  }
  return by_ring;
}

TEST_F(DirectTest, IsTriedBesideTheRing) {
  join(static_cast<std::uint32_t>(::getpid()));
  send_whole();
  receive();
  const auto by_ring = send_many(400);
  const auto through_ring = std::count(by_ring.begin(), by_ring.end(), true);
  EXPECT_FALSE(by_ring.front());
  EXPECT_GE(through_ring, 9);
  EXPECT_TRUE(is_direct()) << "whether it is at present is not what the carrier says";
  EXPECT_EQ(sink_.fetched, 400 - through_ring);
  EXPECT_EQ(sink_.whole, 1 + through_ring * static_cast<int>(kLength / 4096 + 1));
  EXPECT_EQ(sink_.missed, 0);
}

TEST_F(DirectTest, IsNotTriedWhereThatIsNotWanted) {
  b_.link->choose_faster(false);
  join(static_cast<std::uint32_t>(::getpid()));
  send_whole();
  receive();
  const auto by_ring = send_many(400);
  EXPECT_EQ(std::count(by_ring.begin(), by_ring.end(), true), 0);
  EXPECT_EQ(sink_.fetched, 400);
}

TEST_F(DirectTest, EndsWithTheFirstFailure) {
  join(static_cast<std::uint32_t>(::getpid()));
  send_whole();
  receive();
  ASSERT_TRUE(is_direct());
  void* const gone = ::mmap(nullptr, kLength, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  send_direct(*a_.link, reinterpret_cast<std::uintptr_t>(gone));
  send_direct();  // on its way already: follows what is lost
  receive();
  ::munmap(gone, kLength);
  EXPECT_EQ(sink_.missed, 2);
  EXPECT_EQ(a_.link->carrier_to(b_.self), Carrier::kRing);
  send_whole();
  receive();
  EXPECT_EQ(sink_.whole, 2);
  EXPECT_EQ(b_.link->statistics().rings_broken.read(), 0u);
}

TEST_F(DirectTest, CanBeTurnedOffOnBothSides) {
  join(static_cast<std::uint32_t>(::getpid()));
  send_whole();
  receive();
  for (PeerLink* side : {a_.link.get(), b_.link.get()}) {
    ASSERT_TRUE(is_direct());
    side->set_packs(Packs::kJoint);
    receive();
    EXPECT_EQ(a_.link->carrier_to(b_.self), Carrier::kRing);
    send_direct();  // was made before
    receive();
    side->set_packs(Packs::kJointAndDirect);
    receive();
  }
  EXPECT_TRUE(is_direct());
  EXPECT_EQ(sink_.fetched, 2);
}

TEST_F(DirectTest, NeverGoesByUdp) {
  Batch batch;
  batch.add(make_packet(b_.node.qp(1), 1, 100), to(b_.self.address));
  add_direct(batch.get(), b_.node.qp(1), b_.self.address, address());
  batch.add(make_packet(b_.node.qp(1), 2, 100), to(b_.self.address));
  join(static_cast<std::uint32_t>(::getpid()));
  a_.link->remove(b_.self);
  ASSERT_EQ(a_.link->send(batch.get(), a_.node.qp(1)), 3u);
  Collector sink;
  for (int i = 0; i < 100; ++i) b_.link->receive(sink, 64);
  EXPECT_EQ(sink.arrived.size(), 2u);
}

TEST_F(DirectTest, IsLostToFaultsAndUnseenByCaptures) {
  join(static_cast<std::uint32_t>(::getpid()));
  send_whole();
  receive();
  PeerLink* const peers = a_.link.get();
  auto capture = std::make_unique<CaptureLink>(std::move(a_.link), a_.self.address);
  CaptureLink* const captures = capture.get();
  FaultLink faults(std::move(capture), 1);
  captures->start(::memfd_create("capture", MFD_CLOEXEC));
  send_direct(faults, address());
  EXPECT_EQ(captures->packets_written(), 0u);
  receive();
  EXPECT_EQ(sink_.fetched, 1);
  faults.set_for(Qpn(77), {.drop_ppm = 1});
  send_direct(faults, address());  // another queue pair's faults
  receive();
  EXPECT_EQ(sink_.fetched, 2);
  sink_.expect_pattern();
  faults.set_for_all({.delay_ns = 1});
  send_direct(faults, address());
  receive();
  EXPECT_EQ(sink_.fetched, 2);
  EXPECT_EQ(peers->carrier_to(b_.self), Carrier::kDirectRing);
}

// Another process, which dies with a payload that nobody has fetched.
TEST_F(DirectTest, ReachesIntoAnotherProcessUntilItDies) {
  const int fd = SharedRing::create().value();
  auto* const told = new (::mmap(nullptr, 4096, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::atomic<int>(0);
  const pid_t child = ::fork();
  if (child == 0) {
    SharedRing ring = SharedRing::map(fd).value();
    ring.let_writer_be_read();
    RingWriter writer(std::move(ring));
    for (std::uint8_t& byte : memory_) byte = static_cast<std::uint8_t>(~byte);
    Batch batch;
    batch.add(make_packet(b_.node.qp(1), 1, 100), to(b_.self.address));
    writer.put(batch.get(), 0, 1);
    while (writer.reader_packs() != Packs::kJointAndDirect) ::usleep(100);
    batch.get().clear();
    for (int i = 0; i < 2; ++i) {
      add_direct(batch.get(), b_.node.qp(1), b_.self.address, address());
    }
    writer.put(batch.get(), 0, 1);
    while (*told == 0) ::usleep(100);
    writer.put(batch.get(), 1, 1);
    *told = 2;
    for (;;) ::pause();
  }
  b_.link->add_inbound(a_.self, SharedRing::map(fd).value(), static_cast<std::uint32_t>(child));
  while (sink_.fetched + sink_.missed == 0) receive();
  EXPECT_EQ(sink_.fetched, 1);
  for (std::size_t i = 0; i < kLength; ++i) {
    ASSERT_EQ(sink_.bytes[i], static_cast<std::uint8_t>(~pattern(i))) << "of our own memory";
  }
  *told = 1;
  while (*told != 2) ::usleep(100);
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  receive();
  EXPECT_EQ(sink_.missed, 1);
  EXPECT_EQ(SharedRing::map(fd).value().packs(), Packs::kJoint);
  ::munmap(told, 4096);
  ::close(fd);
}

}  // namespace
}  // namespace verbena::link::test
