// SPDX-License-Identifier: BSD-2-Clause
// What both ends are told of messages that one of them had taken in when it failed.
#include <algorithm>
#include <chrono>
#include <memory>

#include "verbs_fixture.hpp"

namespace verbs_test {
namespace {

class Failing : public Verbs {
 protected:
  using Queue = std::unique_ptr<ibv_cq, int (*)(ibv_cq*)>;
  Queue make_queue(int capacity) {
    return {ibv_create_cq(context_, capacity, nullptr, nullptr, 0), &ibv_destroy_cq};
  }
  // Polls until so many completions are there. Returns their statuses.
  std::vector<ibv_wc_status> take(const Queue& queue, std::size_t wanted) {
    std::vector<ibv_wc_status> statuses;
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
    while (statuses.size() < wanted && std::chrono::steady_clock::now() < end) {
      ibv_wc wc;
      if (ibv_poll_cq(queue.get(), 1, &wc) == 1) statuses.push_back(wc.status);
    }
    EXPECT_EQ(statuses.size(), wanted);
    return statuses;
  }
  static auto good(const std::vector<ibv_wc_status>& statuses) {
    return std::count(statuses.begin(), statuses.end(), IBV_WC_SUCCESS);
  }
  void destroy_pair() {
    for (ibv_qp* qp : qps_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    qps_.clear();
  }
};

// The right one takes in messages, and fails because the left one has no receive for its own.
TEST_F(Failing, WhatAPeerHasTakenInSucceeds) {
  constexpr std::size_t kSent = 4;
  constexpr std::size_t kReceives = 8;
  for (int round = 0; round < 20; ++round) {
    const Queue lefts = make_queue(20), rights = make_queue(20);
    left_ = make({.send_cq = lefts.get(), .receive_cq = lefts.get()});
    right_ = make({.send_cq = rights.get(), .receive_cq = rights.get()});
    to_rtr(left_, right_);
    to_rtr(right_, left_);
    to_rts(left_);
    to_rts(right_, 0);
    for (std::size_t i = 0; i < kReceives; ++i) receive(right_);
    for (std::size_t i = 0; i < kSent; ++i) post(left_, request());
    post(right_, request());
    const auto at_right = take(rights, kReceives + 1);
    const auto at_left = take(lefts, kSent);
    EXPECT_EQ(std::count(at_right.begin(), at_right.end(), IBV_WC_RNR_RETRY_EXC_ERR), 1);
    EXPECT_EQ(good(at_left), good(at_right)) << round;
    destroy_pair();
  }
}

TEST_F(Failing, AMessageWithoutRoomForItsCompletionIsRefused) {
  const Queue sends = make_queue(200), receives = make_queue(10);
  const auto room = static_cast<std::size_t>(receives->cqe);
  const std::size_t sent = room + 10;
  left_ = make({.send_cq = sends.get(), .caps = {128, 1, 1, 1, 0}});
  right_ = make({.receive_cq = receives.get(), .caps = {1, 128, 1, 1, 0}});
  to_rtr(left_, right_);
  to_rtr(right_, left_);
  to_rts(left_);
  to_rts(right_);
  for (std::size_t i = 0; i < sent; ++i) receive(right_);
  for (std::size_t i = 0; i < sent; ++i) post(left_, request());
  std::vector<ibv_wc_status> expected(sent, IBV_WC_WR_FLUSH_ERR);
  std::fill_n(expected.begin(), room, IBV_WC_SUCCESS);
  expected[room] = IBV_WC_REM_OP_ERR;
  EXPECT_EQ(take(sends, sent), expected);
  EXPECT_EQ(good(take(receives, room)), static_cast<std::ptrdiff_t>(room));
  destroy_pair();
}

}  // namespace
}  // namespace verbs_test
