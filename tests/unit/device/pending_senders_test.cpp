// SPDX-License-Identifier: BSD-2-Clause
// Tests which queue pairs are to send, in which order, and which are not yet.
#include "verbena/device/pending_senders.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "host.hpp"

namespace verbena::device {
namespace {

using Qps = std::vector<qp::QueuePair*>;
constexpr TimeNs kHold = qp::HeldAck::kHold;

// Tests a list of its own, beside the one in the device that owns the queue pairs.
class PendingSendersTest : public testing::Test {
 protected:
  ~PendingSendersTest() override {
    for (qp::QueuePair* qp : {&a_, &b_, &c_}) host_.device.destroy_qp(qp);
  }
  qp::QueuePair& make() {
    host_.peer = &host_;
    return *host_.create_qp();
  }
  // Holds the queue pair's acknowledgement: twice the application has posted soon.
  void hold(qp::QueuePair& qp) {
    for (int i = 0; i < 2; ++i) {
      qp.held.goes_alone(now_);
      qp.held.posted(now_);
    }
    ASSERT_TRUE(qp.held.holds(now_));
    pending_.hold(qp);
  }
  Qps taken() {
    Qps all;
    pending_.take_all([&](qp::QueuePair& qp) { all.push_back(&qp); });
    return all;
  }
  Qps released(bool all = false) {
    Qps sent;
    pending_.release_held(now_, all, [&](qp::QueuePair& qp) {
      sent.push_back(&qp);
      qp.held.was_taken_along();
    });
    return sent;
  }

  Host host_{0};
  qp::QueuePair& a_ = make();
  qp::QueuePair& b_ = make();
  qp::QueuePair& c_ = make();
  PendingSenders pending_;
  TimeNs now_ = 1'000'000;
};

TEST_F(PendingSendersTest, NobodyIsPendingAtFirst) {
  EXPECT_FALSE(pending_.has_pushed());
  EXPECT_FALSE(pending_.holds_any());
  EXPECT_EQ(pending_.held_until(), kNever);
  EXPECT_EQ(taken(), Qps{});
}

TEST_F(PendingSendersTest, EachIsTakenOnce) {
  pending_.push(a_);
  pending_.push(a_);
  pending_.push_locked(a_);
  EXPECT_TRUE(pending_.has_pushed());
  pending_.touch(b_);
  pending_.touch(b_);
  EXPECT_EQ(taken(), (Qps{&b_, &a_}));
  EXPECT_FALSE(pending_.has_pushed());
  EXPECT_EQ(taken(), Qps{});
}

TEST_F(PendingSendersTest, WhoIsLeftWithSomethingIsThereTheNextTime) {
  pending_.push(a_);
  pending_.push(b_);
  pending_.take_all([&](qp::QueuePair& qp) { pending_.push(qp); });
  EXPECT_EQ(taken().size(), 2u);
}

TEST_F(PendingSendersTest, WhoIsTouchedMeanwhileIsTakenAtOnce) {
  pending_.touch(a_);
  Qps all;
  pending_.take_all([&](qp::QueuePair& qp) {
    all.push_back(&qp);
    if (&qp == &a_) pending_.touch(c_);
  });
  EXPECT_EQ(all, (Qps{&a_, &c_}));
}

TEST_F(PendingSendersTest, AnAcknowledgementIsHeldUntilItsTime) {
  hold(a_);
  now_ += kHold / 2;
  hold(b_);
  EXPECT_TRUE(pending_.holds_any());
  EXPECT_TRUE(pending_.is_holding());
  EXPECT_EQ(pending_.held_until(), now_ + kHold / 2);
  EXPECT_EQ(released(), Qps{});
  now_ += kHold / 2;
  EXPECT_EQ(released(), Qps{&a_});
  EXPECT_EQ(pending_.held_until(), now_ + kHold / 2) << "the other one";
  EXPECT_EQ(released(true), Qps{&b_});
  EXPECT_EQ(pending_.held_until(), kNever);
  EXPECT_FALSE(pending_.is_holding());
}

TEST_F(PendingSendersTest, WhatWentWithDataIsNotReleased) {
  hold(a_);
  hold(a_);
  a_.held.was_taken_along();
  EXPECT_TRUE(pending_.is_holding()) << "not known yet";
  EXPECT_EQ(released(true), Qps{});
  EXPECT_FALSE(pending_.is_holding());
  hold(a_);
  EXPECT_EQ(released(true), Qps{&a_});
}

TEST_F(PendingSendersTest, WhoIsRemovedIsInNoListAndTheOthersStay) {
  pending_.push(a_);
  pending_.push(b_);
  pending_.push(c_);
  hold(b_);
  hold(c_);
  pending_.remove(b_);
  EXPECT_EQ(released(true), Qps{&c_});
  const Qps left = taken();
  EXPECT_EQ(left.size(), 2u);
  for (const qp::QueuePair* qp : left) EXPECT_NE(qp, &b_);
}

}  // namespace
}  // namespace verbena::device
