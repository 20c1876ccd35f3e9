// SPDX-License-Identifier: BSD-2-Clause
// Tests which packets request an acknowledgement. Messages that are sent in one turn have one
// request, at the end. No packet is left without a request behind it.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "host.hpp"
#include "verbena/wire/bth.hpp"

namespace verbena::ack_requests {
namespace {

constexpr std::uint32_t kMtu = 4096;
constexpr std::uint32_t kMost = 15;  // packets in a full batch

// The window is 64 packets. Half of it is sent without an ACK request in between.
class AckRequests : public TwoHosts {
 protected:
  AckRequests() : TwoHosts(Mtu::k4096) {
    left.travels.is_bundled = true;
    left.on_send = [this](const wire::TxBatch& batch) {
      std::string of_batch;
      for (const wire::TxBatch::Packet& p : batch.packets()) {
        of_batch += wire::BthView(batch.start_of(p).data()).ack_request() ? '?' : '.';
      }
      batches.push_back(of_batch);
    };
  }

  void post_write(std::uint32_t packets) {
    const queue::Sge sge = piece(packets * kMtu);
    post(*left_qp, write_of(sge));
  }
  void ring() { left.device.doorbell(*left_qp, ++time); }
  // Returns the batches that were sent since the last call, with one character for each packet.
  std::vector<std::string> sent() { return std::exchange(batches, {}); }
  using Batches = std::vector<std::string>;

  std::vector<std::string> batches;
};

TEST_F(AckRequests, OneIsEnoughForMessagesThatGoTogether) {
  for (int i = 0; i < 3; ++i) post_write(2);
  ring();
  EXPECT_EQ(sent(), (Batches{"?....?"}));
  exchange();
  EXPECT_EQ(completed(), 3u);
}

TEST_F(AckRequests, AMessageByItselfHasOne) {
  post_write(2);
  ring();
  post_write(16);
  ring();
  EXPECT_EQ(sent(), (Batches{"??", "..............?"}));
}

TEST_F(AckRequests, AFullBatchLeavesItToTheNext) {
  for (int i = 0; i < 2; ++i) post_write(kMost + 1);
  ring();
  const std::string none(kMost, '.');
  EXPECT_EQ(sent(), (Batches{"?" + none.substr(1), none, ".?"}));
  exchange();
  EXPECT_EQ(completed(), 2u);
}

TEST_F(AckRequests, WhoeverSendsOnAndOnMakesSomeAmidIt) {
  for (int i = 0; i < 4; ++i) post_write(kMost);
  ring();
  const auto turn = sent();
  ASSERT_EQ(turn.size(), 4u);
  std::string all;
  for (const std::string& batch : turn) all += batch;
  std::string expected(4 * kMost, '.');
  expected[0] = expected[32] = expected.back() = '?';
  EXPECT_EQ(all, expected);
}

// The message that fails here would have requested the ACK for both.
TEST_F(AckRequests, WhenTheNextFailsHereOneGoesForThoseBeforeIt) {
  post_write(kMost);
  queue::Sge sge = piece(kMtu);
  sge.key ^= 0x55;
  post(*left_qp, write_of(sge));
  ring();
  EXPECT_EQ(sent(), (Batches{"?" + std::string(kMost - 1, '.'), "?"}));
  exchange();
  std::vector<queue::Status> statuses;
  for (queue::Completion c; left.send_cq.poll_one(c);) statuses.push_back(c.status);
  EXPECT_EQ(statuses, (std::vector{queue::Status::kSuccess, queue::Status::kLocalProtection}));
}

}  // namespace
}  // namespace verbena::ack_requests
