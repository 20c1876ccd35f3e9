// SPDX-License-Identifier: BSD-2-Clause
// Where packets of any lengths go in one datagram, the rest of a message that a full datagram
// leaves waits for the next message, as long as answers are due that would send it.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "host.hpp"

namespace verbena {
namespace {

using device::Acknowledge;

constexpr std::uint32_t kPackets = 16;
constexpr std::uint32_t kMost = 15;  // packets in a full datagram

class Rest : public TwoHosts {
 protected:
  Rest() : TwoHosts(Mtu::k4096) {
    left.travels.is_bundled = true;
    left.on_send = [this](const wire::TxBatch& batch) { batches.push_back(batch.size()); };
  }

  void post(std::uint32_t packets = kPackets) {
    const queue::Sge sge = piece(packets * 4096);
    {
      const Guard guard(left_qp->lock());
      ASSERT_EQ(left_qp->post_send(write_of(sge)), requester::Posted::kOk);
    }
    left.device.doorbell(*left_qp, ++time);
  }
  // Returns the sizes of the batches since the last call.
  std::vector<std::size_t> sent() { return std::exchange(batches, {}); }
  using Sizes = std::vector<std::size_t>;

  std::vector<std::size_t> batches;
};

TEST_F(Rest, OfAMessageOfItsOwnGoes) {
  post();
  EXPECT_EQ(sent(), (Sizes{kMost, 1}));
}

// READ responses fill datagrams as requests do, though their first and last packets are longer.
TEST_F(Rest, OfAnAnswerGoes) {
  left.travels.is_bundled = false;
  right.travels.is_bundled = true;
  right.on_send = std::exchange(left.on_send, nullptr);
  TwoHosts::post(*left_qp, read_of(piece(kPackets * 4096)));
  left.device.doorbell(*left_qp, ++time);
  exchange();
  EXPECT_EQ(completed(), 1u);
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
  // Seven packets go at once.
  post(7);
  EXPECT_EQ(sent(), (Sizes{14}));
}

// Each message is only a part of a datagram.
TEST_F(Rest, ShortMessagesWaitUntilTheyFillADatagram) {
  post(2);
  EXPECT_EQ(sent(), (Sizes{2}));
  for (int i = 0; i < 7; ++i) post(2);
  EXPECT_EQ(sent(), Sizes{});
  post(2);
  EXPECT_EQ(sent(), (Sizes{kMost}));
  for (int i = 0; i < 6; ++i) post(2);
  EXPECT_EQ(sent(), Sizes{});
  post(2);
  EXPECT_EQ(sent(), (Sizes{kMost}));
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
  // No answer is due any more that would send the rest.
  right.receive(++time, Acknowledge::kNow);
  left.receive(++time, Acknowledge::kNowForPoster);
  EXPECT_EQ(sent(), (Sizes{2}));
  right.receive(++time, Acknowledge::kNow);
  left.receive(++time, Acknowledge::kNowForPoster);
  EXPECT_EQ(completed(), 3u);
}

}  // namespace
}  // namespace verbena
