// SPDX-License-Identifier: BSD-2-Clause
// Two devices opened by one process: what becomes of packets under way when a queue pair is closed.
#include <memory>
#include <utility>

#include "verbs_fixture.hpp"

namespace verbs_test {
namespace {

// Returns a connected queue pair of each side, or nulls if there is none.
std::pair<ibv_qp*, ibv_qp*> connect(Device& left, Device& right) {
  ibv_qp* const from = left.make();
  ibv_qp* const to = right.make();
  if (from == nullptr || to == nullptr) return {};
  left.to_rtr(from, to);
  right.to_rtr(to, from);
  left.to_rts(from);
  right.to_rts(to);
  return {from, to};
}

// An adapter acknowledges a message before any program can know of it. So the ACK arrives before
// any other word of the receiver that makes the sender close.
TEST(Closing, AMessageThatWasReceivedIsNotFlushed) {
  Device left;
  Device right;
  for (int i = 0; i < 300; ++i) {
    const auto [from, to] = connect(left, right);
    ASSERT_TRUE(from != nullptr && to != nullptr);
    right.receive(to);
    left.post(from, left.request());
    ASSERT_EQ(right.poll().status, IBV_WC_SUCCESS);
    ASSERT_EQ(right.to_state(to, IBV_QPS_ERR), 0);
    ASSERT_EQ(left.to_state(from, IBV_QPS_ERR), 0);
    ASSERT_EQ(left.poll().status, IBV_WC_SUCCESS) << "message " << i;
  }
}

// What an adapter has received before its queue pair is destroyed is acknowledged, although no
// program has polled for it.
TEST(Closing, AMessageThatCameBeforeTheEndIsAcknowledged) {
  Device left;
  Device right;
  for (int i = 0; i < 100; ++i) {
    const auto [from, to] = connect(left, right);
    ASSERT_TRUE(from != nullptr && to != nullptr);
    right.receive(to);
    ibv_wc wc{};
    for (int polls = 0; polls < 2000; ++polls) ASSERT_EQ(ibv_poll_cq(right.cq_, 1, &wc), 0);
    left.post(from, left.request());
    right.destroy(to);
    ASSERT_EQ(left.poll().status, IBV_WC_SUCCESS) << "message " << i;
    left.destroy(from);
  }
}

// This also holds for an ACK that waits for the application's own next message, as in a ping-pong.
TEST(Closing, WhatIsOwedIsSentThough) {
  Device left;
  Device right;
  for (int i = 0; i < 20; ++i) {
    const auto [from, to] = connect(left, right);
    ASSERT_TRUE(from != nullptr && to != nullptr);
    int sent = 0;  // completed requests of the left side
    const auto await_message = [&](Device& end) {
      for (ibv_wc wc = end.poll(); wc.opcode != IBV_WC_RECV; wc = end.poll()) {
        sent += &end == &left ? 1 : 0;
      }
    };
    constexpr int kTurns = 50;
    for (int n = 0; n < kTurns; ++n) {
      left.receive(from);
      right.receive(to);
      left.post(from, left.request());
      await_message(right);
      right.post(to, right.request());
      await_message(left);
    }
    right.receive(to);
    left.post(from, left.request());
    await_message(right);
    ASSERT_EQ(right.to_state(to, IBV_QPS_ERR), 0);
    for (; sent <= kTurns; ++sent) {
      ASSERT_EQ(left.poll().status, IBV_WC_SUCCESS) << "connection " << i << " message " << sent;
    }
    ASSERT_EQ(left.to_state(from, IBV_QPS_ERR), 0);
  }
}

}  // namespace
}  // namespace verbs_test
