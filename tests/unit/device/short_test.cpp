// SPDX-License-Identifier: BSD-2-Clause
// Short packets that go by themselves: the same bytes and counts as in a batch, the acknowledgement
// that is owed with them; and what does not go so.
#include <gtest/gtest.h>

#include "host.hpp"

namespace verbena {
namespace {

using device::Acknowledge;
using queue::Status;
using queue::WorkOpcode;
using Packets = std::deque<std::vector<std::uint8_t>>;

// Whatever two pairs of hosts do alike has the same bytes: they have the same numbers, and the
// right's memory is known by the same address.
class Pair : public TwoHosts {
 public:
  static constexpr std::uint64_t kBase = 0x10000;

  explicit Pair(bool takes_short, Mtu mtu = Mtu::k256) : TwoHosts(mtu) {
    left.takes_short = right.takes_short = takes_short;
    fill(left);
    memory::RegionRequest r;
    r.domain = kDomain;
    r.host_address = reinterpret_cast<std::uint64_t>(right.bytes.data());
    r.base = kBase;
    r.length = kMemory;
    r.access = kAll;
    right_key_ = *right.device.memory().register_region(r);
  }

  queue::SendRequest request(WorkOpcode opcode, const queue::Sge& sge,
                             std::uint8_t flags = queue::kSignaled) {
    queue::SendRequest r;
    r.opcode = opcode;
    r.flags = flags;
    r.sges = {&sge, 1};
    r.immediate = 0x11223344;
    r.remote_address = kBase + 8;
    r.remote_key = right_key_;
    return r;
  }
  void post_receive() {
    const queue::Sge sge{reinterpret_cast<std::uint64_t>(right.bytes.data()), 4096, right.key};
    ASSERT_EQ(right_qp->post_receive({.id = 1, .sges = {&sge, 1}}), qp::PostedReceive::kOk);
  }
  void ring() { left.device.doorbell(*left_qp, ++time); }
  // What goes for this request, until it is answered.
  Packets packets_of(WorkOpcode opcode, std::uint32_t length, std::uint8_t flags) {
    const queue::Sge sge = piece(length);
    post_receive();
    post(*left_qp, request(opcode, sge, flags));
    ring();
    Packets packets = right.inbox;
    exchange();
    return packets;
  }
  // So that the left owes an acknowledgement.
  void write_from_right() {
    const queue::Sge sge{reinterpret_cast<std::uint64_t>(right.bytes.data()) + 512, 8, right.key};
    queue::SendRequest r = request(WorkOpcode::kWrite, sge);
    r.remote_address = reinterpret_cast<std::uint64_t>(left.bytes.data()) + 1024;
    r.remote_key = left.key;
    post(*right_qp, r);
    right.device.doorbell(*right_qp, ++time);
    ASSERT_EQ(left.receive(++time, Acknowledge::kLater), 1u);
  }

  using TwoHosts::completed;
  using TwoHosts::exchange;
  using TwoHosts::left;
  using TwoHosts::left_qp;
  using TwoHosts::piece;
  using TwoHosts::post;
  using TwoHosts::right;
  using TwoHosts::time;

 private:
  void TestBody() override {}
  std::uint32_t right_key_ = 0;
};

void expect_alike(Pair& a, Pair& b) {
  EXPECT_EQ(a.left.device.counters().sent.packets(), b.left.device.counters().sent.packets());
  EXPECT_EQ(a.left.device.counters().sent.bytes(), b.left.device.counters().sent.bytes());
  const auto& x = a.left_qp->endpoint().counters;
  const auto& y = b.left_qp->endpoint().counters;
  EXPECT_EQ(x.packets_sent.read(), y.packets_sent.read());
  EXPECT_EQ(x.bytes_sent.read(), y.bytes_sent.read());
}

TEST(ShortPackets, AreWhatABatchWouldHold) {
  Pair one(true), other(false);
  std::size_t count = 0;
  for (const std::uint32_t length : {0u, 1u, 3u, 8u, 64u, 255u, 256u}) {
    for (const std::uint8_t flags : {0, 2, 6, 10}) {  // of signaled, solicited, inline
      if ((flags & queue::kInline) != 0 && length > 64) continue;
      for (const auto opcode : {WorkOpcode::kSend, WorkOpcode::kSendImmediate, WorkOpcode::kWrite,
                                WorkOpcode::kWriteImmediate}) {
        const Packets packets = one.packets_of(opcode, length, flags);
        ASSERT_EQ(packets.size(), 1u);
        EXPECT_EQ(packets, other.packets_of(opcode, length, flags))
            << length << " bytes, opcode " << int(opcode) << ", flags " << int(flags);
        EXPECT_EQ(one.left.sent_short, ++count);
      }
    }
  }
  EXPECT_EQ(other.left.sent_short, 0u);
  EXPECT_EQ(one.completed(), other.completed());
  expect_alike(one, other);
}

// Also where a batch has sums to carry.
TEST(ShortPackets, AreAsLongAsAPacketWhereTheyAreSealed) {
  Pair one(true, Mtu::k4096), other(false, Mtu::k4096);
  one.left.travels.is_sealed = other.left.travels.is_sealed = true;
  std::size_t count = 0;
  for (const std::uint32_t length : {511u, 512u, 1000u, 1023u, 1024u, 2048u, 3072u, 4095u, 4096u}) {
    for (const auto opcode : {WorkOpcode::kSendImmediate, WorkOpcode::kWrite}) {
      const Packets packets = one.packets_of(opcode, length, queue::kSignaled);
      ASSERT_EQ(packets.size(), 1u);
      EXPECT_EQ(packets, other.packets_of(opcode, length, queue::kSignaled)) << length;
      EXPECT_EQ(one.left.sent_short, ++count);
    }
  }
  EXPECT_EQ(one.left.summed_short, 2 * 3u);
  EXPECT_EQ(one.completed(), count);
  expect_alike(one, other);
}

// Of several pieces there is no sum; then the next one has none of the one before.
TEST(ShortPackets, AreSealedWithoutASumWhereTheyAreGathered) {
  Pair one(true, Mtu::k4096), other(false, Mtu::k4096);
  std::vector<Packets> sent;
  for (Pair* pair : {&one, &other}) {
    pair->left.travels.is_sealed = true;
    queue::Sge sges[2] = {pair->piece(1024), pair->piece(1024)};
    sges[1].address += 1024;
    queue::SendRequest r = pair->request(WorkOpcode::kWrite, sges[0]);
    for (const std::size_t pieces : {1, 2, 1}) {
      r.sges = {sges, pieces};
      pair->post(*pair->left_qp, r);
      pair->ring();
      sent.push_back(pair->right.inbox);
      pair->exchange();
    }
  }
  EXPECT_EQ(one.left.sent_short, 3u);
  EXPECT_EQ(one.left.summed_short, 2u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(sent[i], sent[i + 3]) << i;
}

TEST(ShortPackets, TakeAlongWhatIsOwed) {
  Pair one(true), other(false);
  const auto answer = [](Pair& pair) {
    pair.write_from_right();
    const Packets packets = pair.packets_of(WorkOpcode::kSend, 8, queue::kSignaled);
    queue::Completion c;
    EXPECT_TRUE(pair.right.send_cq.poll_one(c) && c.status == Status::kSuccess);
    return packets;
  };
  for (int i = 0; i < 3; ++i) {
    const Packets packets = answer(one);
    EXPECT_EQ(packets.size(), 2u);
    EXPECT_EQ(packets, answer(other));
  }
  EXPECT_EQ(one.left.sent_short, 3u);
  EXPECT_FALSE(one.left_qp->wants_to_transmit());
  expect_alike(one, other);
}

class NotShort : public testing::Test {
 protected:
  Pair pair_{true};
  const queue::Sge sge_ = pair_.piece(8);

  std::size_t sent() {
    pair_.ring();
    return pair_.right.inbox.size();
  }
};

TEST_F(NotShort, AreSeveral) {
  pair_.post(*pair_.left_qp, pair_.request(WorkOpcode::kWrite, sge_));
  pair_.post(*pair_.left_qp, pair_.request(WorkOpcode::kWrite, sge_));
  EXPECT_EQ(sent(), 2u);
  EXPECT_EQ(pair_.left.sent_short, 0u);
}

TEST_F(NotShort, AreThoseOfMoreThanOnePacket) {
  const queue::Sge two = pair_.piece(257);
  const queue::Sge long_one = pair_.piece(512);
  pair_.post(*pair_.left_qp, pair_.request(WorkOpcode::kWrite, two));
  EXPECT_EQ(sent(), 2u);
  pair_.exchange();
  pair_.post(*pair_.left_qp, pair_.request(WorkOpcode::kWrite, long_one));
  EXPECT_EQ(sent(), 2u);
  pair_.exchange();
  EXPECT_EQ(pair_.left.sent_short, 0u);
  EXPECT_EQ(pair_.completed(), 2u);
}

TEST_F(NotShort, AreThoseThatMayStayWhereTheyAre) {
  Pair pair(true, Mtu::k4096);
  pair.packets_of(WorkOpcode::kWrite, 511, queue::kSignaled);
  EXPECT_EQ(pair.left.sent_short, 1u);
  pair.packets_of(WorkOpcode::kWrite, 512, queue::kSignaled);
  EXPECT_EQ(pair.left.sent_short, 1u);
  EXPECT_EQ(pair.completed(), 2u);
}

TEST_F(NotShort, AreThoseThatAskForData) {
  pair_.post(*pair_.left_qp, pair_.request(WorkOpcode::kRead, sge_));
  EXPECT_EQ(sent(), 1u);
  pair_.exchange();
  EXPECT_EQ(pair_.left.sent_short, 0u);
  EXPECT_EQ(pair_.completed(), 1u);
}

// Behind a READ whose answer it must await it goes when that has come.
TEST_F(NotShort, AreFencedOnes) {
  pair_.post(*pair_.left_qp, pair_.request(WorkOpcode::kRead, sge_));
  EXPECT_EQ(sent(), 1u);
  pair_.post(*pair_.left_qp,
             pair_.request(WorkOpcode::kWrite, sge_, queue::kFence | queue::kSignaled));
  EXPECT_EQ(sent(), 1u);
  EXPECT_EQ(pair_.left.sent_short, 0u);
  pair_.exchange();
  EXPECT_EQ(pair_.completed(), 2u);
}

TEST_F(NotShort, AreThoseWhoseBuffersAreWrong) {
  queue::Sge wrong = sge_;
  wrong.key ^= 1;
  pair_.post(*pair_.left_qp, pair_.request(WorkOpcode::kSend, wrong));
  EXPECT_EQ(sent(), 0u);
  EXPECT_EQ(pair_.left.sent_short, 0u);
  EXPECT_EQ(pair_.completed(Status::kLocalProtection), 1u);
}

// What was lost goes again by the ordinary way.
TEST_F(NotShort, AreRepetitions) {
  pair_.post(*pair_.left_qp, pair_.request(WorkOpcode::kWrite, sge_));
  EXPECT_EQ(sent(), 1u);
  EXPECT_EQ(pair_.left.sent_short, 1u);
  pair_.right.inbox.clear();
  for (int i = 0; i < 100 && pair_.right.inbox.empty(); ++i) {
    pair_.time += 1'000'000;
    pair_.left.receive(pair_.time, Acknowledge::kNow);
  }
  EXPECT_EQ(pair_.right.inbox.size(), 1u);
  EXPECT_EQ(pair_.left.sent_short, 1u);
  pair_.exchange();
  EXPECT_EQ(pair_.completed(), 1u);
}

// A port that is down loses them, as it does all.
TEST_F(NotShort, AreSentByAPortThatIsDown) {
  pair_.left.device.set_port_active(false);
  pair_.post(*pair_.left_qp, pair_.request(WorkOpcode::kWrite, sge_));
  EXPECT_EQ(sent(), 0u);
  EXPECT_EQ(pair_.left.sent_short, 0u);
}

}  // namespace
}  // namespace verbena
