// Where packets of any lengths go at once: what a full datagram leaves of a message waits for the
// next message, as long as answers are due that would bring it its turn.
#include <gtest/gtest.h>

#include "host.hpp"

namespace verbena {
namespace {

using device::Acknowledge;

constexpr std::uint32_t kPackets = 16;
constexpr std::uint32_t kMost = 15;  // in a datagram

class Rest : public testing::Test {
 protected:
  Rest() : left(0), right(1) {
    left.peer = &right;
    right.peer = &left;
    left.travels.is_bundled = true;
    left_qp = left.create_qp();
    right_qp = right.create_qp();
    bring_up(left, *left_qp, right, *right_qp, Mtu::k4096);
    bring_up(right, *right_qp, left, *left_qp, Mtu::k4096);
    left.on_send = [this](const wire::TxBatch& batch) { batches.push_back(batch.size()); };
  }
  ~Rest() override {
    left.device.destroy_qp(left_qp);
    right.device.destroy_qp(right_qp);
  }

  void post(std::uint32_t packets = kPackets) {
    const queue::Sge sge{reinterpret_cast<std::uint64_t>(left.bytes.data()), packets * 4096,
                         left.key};
    queue::SendRequest r;
    r.opcode = queue::WorkOpcode::kWrite;
    r.flags = queue::kSignaled;
    r.sges = {&sge, 1};
    r.remote_address = reinterpret_cast<std::uint64_t>(right.bytes.data());
    r.remote_key = right.key;
    {
      const Guard guard(left_qp->lock());
      ASSERT_EQ(left_qp->post_send(r), requester::Posted::kOk);
    }
    left.device.doorbell(*left_qp, ++time);
  }
  // Since the last time.
  std::vector<std::size_t> sent() { return std::exchange(batches, {}); }
  std::size_t completed() {
    std::size_t count = 0;
    for (queue::Completion c; left.send_cq.poll_one(c); ++count) {
      EXPECT_EQ(c.status, queue::Status::kSuccess);
    }
    return count;
  }
  using Sizes = std::vector<std::size_t>;

  Host left, right;
  qp::QueuePair* left_qp = nullptr;
  qp::QueuePair* right_qp = nullptr;
  TimeNs time = 1'000'000;
  std::vector<std::size_t> batches;
};

TEST_F(Rest, OfAMessageOfItsOwnGoes) {
  post();
  EXPECT_EQ(sent(), (Sizes{kMost, 1}));
}

TEST_F(Rest, WaitsForTheNextMessage) {
  post();
  sent();
  post();
  EXPECT_EQ(sent(), (Sizes{kMost}));
  post();
  EXPECT_EQ(sent(), (Sizes{kMost}));
  post(5);
  EXPECT_EQ(sent(), Sizes{});
  // So much goes on its own.
  post(7);
  EXPECT_EQ(sent(), (Sizes{14}));
}

TEST_F(Rest, GoesWithTheNextRound) {
  post();
  post();
  sent();
  left.receive(++time, Acknowledge::kNow);
  EXPECT_EQ(sent(), (Sizes{1}));
  right.receive(++time, Acknowledge::kNow);
  left.receive(++time, Acknowledge::kNow);
  EXPECT_EQ(completed(), 2u);
}

TEST_F(Rest, WaitsOnWhileTheApplicationPosts) {
  post();
  post();
  sent();
  left.receive(++time, Acknowledge::kNowForPoster);
  EXPECT_EQ(sent(), Sizes{});
  post();
  EXPECT_EQ(sent(), (Sizes{kMost}));
  // Nothing is due any more that would bring it a turn.
  right.receive(++time, Acknowledge::kNow);
  left.receive(++time, Acknowledge::kNowForPoster);
  EXPECT_EQ(sent(), (Sizes{2}));
  right.receive(++time, Acknowledge::kNow);
  left.receive(++time, Acknowledge::kNowForPoster);
  EXPECT_EQ(completed(), 3u);
}

}  // namespace
}  // namespace verbena
