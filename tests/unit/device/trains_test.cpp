// An answer and the acknowledgement behind it, which came as one buffer: taken in as one, with the
// results and the counts of two.
#include <gtest/gtest.h>

#include "host.hpp"

namespace verbena {
namespace {

using device::Acknowledge;
using Packets = std::deque<std::vector<std::uint8_t>>;

class Answered : public TwoHosts {
 public:
  // The left has written, and the right has written back: its packet, and what it owed behind that.
  Packets answer() {
    write(left, *left_qp, right);
    right.receive(++time, Acknowledge::kLater);
    write(right, *right_qp, left);
    return std::exchange(left.inbox, {});
  }
  // As the link hands over what came in one buffer, each with room for its ICRC behind it.
  void take_together(const Packets& packets) {
    const std::size_t step = packets.front().size() + wire::kIcrcSize;
    std::vector<std::uint8_t> buffer(step * packets.size());
    for (std::size_t i = 0; i < packets.size(); ++i) {
      std::copy(packets[i].begin(), packets[i].end(), buffer.begin() + i * step);
    }
    wire::RxTrain train;
    train.head.bytes = std::span(buffer).first(packets.front().size());
    train.head.source = right.address;
    train.head.destination = left.address;
    train.step = step;
    train.last_length = packets.back().size();
    train.count = static_cast<std::uint32_t>(packets.size());
    const Guard guard(left.device.receive_lock());
    left.device.handle_train(++time, train);
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
    from.device.doorbell(qp, ++time);
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

TEST(TakenTogether, AnAnswerAndAnAcknowledgementAreTwoPackets) {
  Answered one, other;
  for (std::size_t i = 1; i <= 3; ++i) {
    const Packets packets = one.answer();
    ASSERT_EQ(packets.size(), 2u);
    one.take_together(packets);
    other.take_one_by_one(other.answer());
    EXPECT_EQ(one.completed(), 1u);
    EXPECT_EQ(other.completed(), 1u);
    EXPECT_EQ(one.left.device.counters().received.packets.read(), 2 * i);
    expect_alike(one, other);
  }
}

// What would not ride is looked at for itself, and dropped for itself.
TEST(TakenTogether, AnAcknowledgementThatIsDamagedIsDroppedAlone) {
  Answered one, other;
  const auto damaged = [](Packets packets) {
    packets[1][1] |= 1;  // a version that nobody has
    return packets;
  };
  one.take_together(damaged(one.answer()));
  other.take_one_by_one(damaged(other.answer()));
  EXPECT_EQ(one.left.device.counters().drops.total(), 1u);
  EXPECT_EQ(one.left_qp->requester().in_flight(), 1u);
  expect_alike(one, other);
  EXPECT_EQ(one.completed(), 0u);
}

}  // namespace
}  // namespace verbena
