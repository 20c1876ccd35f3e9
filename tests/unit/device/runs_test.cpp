// SPDX-License-Identifier: BSD-2-Clause
// Packets that came in one buffer with the acknowledgement before them. The acknowledgement is
// handled first, and results and counters are those of single packets.
#include <gtest/gtest.h>

#include "host.hpp"

namespace verbena {
namespace {

using device::Acknowledge;
using Packets = std::deque<std::vector<std::uint8_t>>;

class Answered : public TwoHosts {
 public:
  // The left writes, and the right writes `count` times. Returns the right's ACK and packets.
  Packets answer(std::size_t count) {
    write(left, *left_qp, right);
    left.device.doorbell(*left_qp, ++time);
    right.take_in(++time);
    for (std::size_t i = 0; i < count; ++i) write(right, *right_qp, left);
    right.device.doorbell(*right_qp, ++time);
    right.receive(++time, Acknowledge::kNow);
    return std::exchange(left.inbox, {});
  }
  // Hands over packets as the link does with one buffer: each has room for its ICRC behind it.
  void take_together(Packets packets) {
    const auto ack = wire::PiggybackedAck::of(packets[0], packets[1]);
    if (!ack) return take_one_by_one(packets);
    packets.pop_front();
    const std::size_t step = packets.front().size() + wire::kIcrcSize;
    std::vector<std::uint8_t> buffer(step * packets.size());
    for (std::size_t i = 0; i < packets.size(); ++i) {
      std::copy(packets[i].begin(), packets[i].end(), buffer.begin() + i * step);
    }
    wire::RxRun run;
    run.head.bytes = std::span(buffer).first(packets.front().size());
    run.head.source = right.address;
    run.head.destination = left.address;
    run.head.piggybacked_ack = ack;
    run.step = step;
    run.last_length = packets.back().size();
    run.count = static_cast<std::uint32_t>(packets.size());
    const Guard guard(left.device.receive_lock());
    ++time;
    if (run.count == 1) {
      left.device.handle_datagram(time, run.head);
    } else {
      left.device.handle_run(time, run);
    }
    left.device.finish_receive(time, Acknowledge::kNow);
  }
  void take_one_by_one(const Packets& packets) {
    left.inbox = packets;
    left.receive(++time, Acknowledge::kNow);
  }

  using TwoHosts::completed;
  using TwoHosts::left;
  using TwoHosts::left_qp;
  using TwoHosts::right;

 private:
  void write(Host& from, qp::QueuePair& qp, Host& to) {
    const queue::Sge sge{reinterpret_cast<std::uint64_t>(from.bytes.data()), 8, from.key};
    queue::SendRequest r;
    r.opcode = queue::WorkOpcode::kWrite;
    r.flags = queue::kSignaled;
    r.sges = {&sge, 1};
    r.remote_address = reinterpret_cast<std::uint64_t>(to.bytes.data()) + 64;
    r.remote_key = to.key;
    post(qp, r);
  }
  void TestBody() override {}
};

void expect_alike(Answered& a, Answered& b) {
  auto& x = a.left.device.counters();
  auto& y = b.left.device.counters();
  EXPECT_EQ(x.received.packets.read(), y.received.packets.read());
  EXPECT_EQ(x.received.bytes.read(), y.received.bytes.read());
  EXPECT_EQ(x.drops.total(), y.drops.total());
  EXPECT_EQ(x.sent.packets(), y.sent.packets());
  EXPECT_EQ(a.left_qp->requester().in_flight(), b.left_qp->requester().in_flight());
}

TEST(TakenTogether, AnAcknowledgementAndTheAnswersBehindItAreAsManyPackets) {
  Answered one, other;
  std::size_t all = 0;
  for (const std::size_t count : {1u, 3u, 1u, 7u}) {
    const Packets packets = one.answer(count);
    ASSERT_EQ(packets.size(), 1 + count);
    ASSERT_EQ(packets[0].size(), wire::PiggybackedAck::kPacketSize) << "it goes first";
    one.take_together(packets);
    other.take_one_by_one(other.answer(count));
    EXPECT_EQ(one.completed(), 1u);
    EXPECT_EQ(other.completed(), 1u);
    EXPECT_EQ(one.left.device.counters().received.packets.read(), all += packets.size());
    expect_alike(one, other);
  }
}

// An ACK that cannot be piggybacked is handled on its own, and dropped on its own.
TEST(TakenTogether, AnAcknowledgementThatIsDamagedIsDroppedAlone) {
  Answered one, other;
  const auto damaged = [](Packets packets) {
    packets[0][1] |= 1;  // an unknown version
    return packets;
  };
  one.take_together(damaged(one.answer(1)));
  other.take_one_by_one(damaged(other.answer(1)));
  EXPECT_EQ(one.left.device.counters().drops.total(), 1u);
  EXPECT_EQ(one.left_qp->requester().in_flight(), 1u);
  expect_alike(one, other);
  EXPECT_EQ(one.completed(), 0u);
}

}  // namespace
}  // namespace verbena
