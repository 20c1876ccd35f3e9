// SPDX-License-Identifier: BSD-2-Clause
// What is on its way when a queue pair is closed, between two devices opened by one process.
#include <memory>
#include <utility>

#include "verbs_fixture.hpp"

namespace verbs_test {
namespace {

// The fixture's parts, a second time.
class End final : public Verbs {
 public:
  End() { SetUp(); }
  ~End() override { TearDown(); }
  void TestBody() override {}

  using Verbs::make;
  using Verbs::poll;
  using Verbs::post;
  using Verbs::receive;
  using Verbs::request;
  using Verbs::to_rtr;
  using Verbs::to_rts;
  using Verbs::to_state;
};

// A queue pair of each, null where there is none to be had.
std::pair<ibv_qp*, ibv_qp*> connect(End& left, End& right) {
  ibv_qp* const from = left.make();
  ibv_qp* const to = right.make();
  if (from == nullptr || to == nullptr) return {};
  left.to_rtr(from, to);
  right.to_rtr(to, from);
  left.to_rts(from);
  right.to_rts(to);
  return {from, to};
}

// An adapter has answered a message before anyone can know of it, so that the answer is there
// before whatever the receiver says afterwards, by another way, that has the sender close.
TEST(Closing, AMessageThatWasReceivedIsNotFlushed) {
  End left;
  End right;
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

// Also where it waited for the application's own next message, as it does in a ping-pong.
TEST(Closing, WhatIsOwedIsSentThough) {
  End left;
  End right;
  for (int i = 0; i < 20; ++i) {
    const auto [from, to] = connect(left, right);
    ASSERT_TRUE(from != nullptr && to != nullptr);
    int sent = 0;  // of the left's, that completed
    const auto await_message = [&](End& end) {
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
