// SPDX-License-Identifier: BSD-2-Clause
// Acknowledgements that wait for the application to post: when they do, what they travel with, and
// that none is pending for long.
#include <gtest/gtest.h>

#include "host.hpp"

namespace verbena {
namespace {

using device::Acknowledge;
using device::Device;

constexpr TimeNs kHop = 1'000;
constexpr TimeNs kLong = 100'000;

// Each side writes into the other's memory. The test sets the time.
class Held : public TwoHosts {
 protected:
  void write(Host& from, qp::QueuePair& qp) {
    const queue::Sge sge{reinterpret_cast<std::uint64_t>(from.bytes.data()), 8, from.key};
    queue::SendRequest r;
    r.opcode = queue::WorkOpcode::kWrite;
    r.flags = queue::kSignaled;
    r.sges = {&sge, 1};
    r.remote_address = reinterpret_cast<std::uint64_t>(from.peer->bytes.data()) + 64;
    r.remote_key = from.peer->key;
    {
      const Guard guard(qp.lock());
      ASSERT_EQ(qp.post_send(r), requester::Posted::kOk);
    }
    from.device.doorbell(qp, time);
  }
  // Takes what the right has sent, and returns how many packets there were.
  std::size_t from_right() {
    time += kHop;
    return left.receive(time, Acknowledge::kNow);
  }
  void right_receives(Acknowledge how) {
    time += kHop;
    ASSERT_EQ(right.receive(time, how), 1u);
  }
  bool left_has_completion() {
    queue::Completion c;
    return left.send_cq.poll_one(c) && c.status == queue::Status::kSuccess;
  }
  // The left writes, the right's thread takes it, and the right's application answers after
  // `pause`. Returns whether the acknowledgement waited for the answer.
  bool exchange(Acknowledge how, TimeNs pause = kHop) {
    write(left, *left_qp);
    right_receives(how);
    const bool waited = from_right() == 0;
    time += pause;
    write(right, *right_qp);
    from_right();
    EXPECT_TRUE(left_has_completion());
    right_receives(Acknowledge::kNow);  // the acknowledgement of the answer
    return waited;
  }
  void learn() {
    while (!exchange(Acknowledge::kUnlessAnswered)) {
    }
  }
  // The left writes and gets no answer. Returns whether the acknowledgement waited before it came.
  bool left_writes_in_vain() {
    write(left, *left_qp);
    right_receives(Acknowledge::kUnlessAnswered);
    if (from_right() == 1) return false;
    EXPECT_FALSE(left_has_completion());
    const TimeNs due = right.device.next_deadline();
    EXPECT_GT(due, time);
    EXPECT_LE(due, time + 20'000);
    time = due;
    EXPECT_EQ(right.receive(time, Acknowledge::kUnlessAnswered), 0u);
    EXPECT_EQ(from_right(), 1u);
    return true;
  }
};

TEST_F(Held, GoAtOnceWhereNobodyAnswers) {
  for (int i = 0; i < 50; ++i) {
    ASSERT_FALSE(left_writes_in_vain());
    ASSERT_TRUE(left_has_completion());
    time += kHop;
  }
}

TEST_F(Held, GoAtOnceWhereAnswersAreLate) {
  for (int i = 0; i < 50; ++i) ASSERT_FALSE(exchange(Acknowledge::kUnlessAnswered, kLong));
}

TEST_F(Held, WaitForAnAnswerThatComesSoon) {
  EXPECT_FALSE(exchange(Acknowledge::kUnlessAnswered));
  EXPECT_FALSE(exchange(Acknowledge::kUnlessAnswered));
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(exchange(Acknowledge::kUnlessAnswered));
}

// The acknowledgement and the answer are two datagrams that one call sends.
TEST_F(Held, TravelWithTheAnswer) {
  learn();
  write(left, *left_qp);
  right_receives(Acknowledge::kUnlessAnswered);
  ASSERT_EQ(from_right(), 0u);
  write(right, *right_qp);
  EXPECT_EQ(from_right(), 2u);
  EXPECT_TRUE(left_has_completion());
}

TEST_F(Held, AreNotOwedForLong) {
  learn();
  EXPECT_TRUE(left_writes_in_vain());
  EXPECT_TRUE(left_has_completion());
}

// provider_test.ThreadSpinTest tests by the same rule how the cost of each wait in vain grows.
TEST_F(Held, AWaitInVainIsNotRepeatedAtOnce) {
  learn();
  ASSERT_TRUE(left_writes_in_vain());
  ASSERT_TRUE(left_has_completion());
  for (int i = 0; i < 4; ++i) ASSERT_FALSE(exchange(Acknowledge::kUnlessAnswered));
  ASSERT_TRUE(exchange(Acknowledge::kUnlessAnswered));
}

TEST_F(Held, GoAtOnceForWhoSaysNow) {
  learn();
  for (int i = 0; i < 10; ++i) ASSERT_FALSE(exchange(Acknowledge::kNow));
}

// Two hosts that write at the same time and wait for each other do not wait for long.
TEST_F(Held, DoNotWaitForEachOther) {
  learn();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(exchange(Acknowledge::kUnlessAnswered));
  }
  write(left, *left_qp);
  write(right, *right_qp);
  time += kHop;
  ASSERT_EQ(left.receive(time, Acknowledge::kUnlessAnswered), 1u);
  ASSERT_EQ(right.receive(time, Acknowledge::kUnlessAnswered), 1u);
  time += 20'000;
  left.receive(time, Acknowledge::kUnlessAnswered);
  right.receive(time, Acknowledge::kUnlessAnswered);
  left.receive(time, Acknowledge::kUnlessAnswered);
  right.receive(time, Acknowledge::kUnlessAnswered);
  EXPECT_TRUE(left_has_completion());
  queue::Completion c;
  EXPECT_TRUE(right.send_cq.poll_one(c));
}

// A request that is posted while requests are under way goes in a later round, with the ACK.
TEST_F(Held, TravelWithWhatWasDeferred) {
  learn();
  write(left, *left_qp);
  write(right, *right_qp);
  time += kHop;
  ASSERT_EQ(right.receive(time, Acknowledge::kUnlessAnswered), 1u);
  write(right, *right_qp);
  EXPECT_EQ(right.receive(time, Acknowledge::kUnlessAnswered), 0u);
  EXPECT_EQ(from_right(), 3u);
  EXPECT_TRUE(left_has_completion());
  time += kLong;
  EXPECT_EQ(right.receive(time, Acknowledge::kUnlessAnswered), 1u);
  EXPECT_EQ(from_right(), 0u);
}

TEST_F(Held, EndWithTheirQueuePair) {
  learn();
  write(left, *left_qp);
  right_receives(Acknowledge::kUnlessAnswered);
  ASSERT_LE(right.device.next_deadline(), time + 20'000);
  right.device.destroy_qp(right_qp);
  time += kLong;
  EXPECT_EQ(right.receive(time, Acknowledge::kUnlessAnswered), 0u);
  EXPECT_EQ(from_right(), 0u);
  right_qp = right.create_qp();
}

}  // namespace
}  // namespace verbena
