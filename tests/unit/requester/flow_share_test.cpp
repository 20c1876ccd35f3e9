// SPDX-License-Identifier: BSD-2-Clause
// Tests which of many queue pairs that send to one peer has a turn, and how large the shares are.
#include "verbena/requester/flow_share.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

namespace verbena::requester {
namespace {

constexpr std::uint32_t kCapacity = 128;

class FlowShareTest : public ::testing::Test, private TurnSink {
 protected:
  FlowShare::Place& place(std::size_t i) {
    while (places_.size() <= i) places_.emplace_back(new_member());
    return places_[i];
  }
  bool enter(std::size_t i, std::uint64_t wanted, std::uint32_t capacity = kCapacity) {
    return share.enter(place(i), wanted, capacity);
  }
  // `count` members enter and want `wanted` each. Returns how many of them have a turn.
  std::size_t turns_of(std::size_t count, std::uint64_t wanted,
                       std::uint32_t capacity = kCapacity) {
    std::size_t turns = 0;
    for (std::size_t i = 0; i < count; ++i) turns += enter(i, wanted, capacity) ? 1 : 0;
    return turns;
  }

  FlowShare share{*this};
  std::vector<std::size_t> told;  // members that were told of a turn, in order

 private:
  void* new_member() {
    members_.push_back(members_.size());
    return &members_.back();
  }
  void on_turn(void* member) noexcept override {
    told.push_back(*static_cast<std::size_t*>(member));
  }
  std::deque<std::size_t> members_;
  std::deque<FlowShare::Place> places_;
};

TEST_F(FlowShareTest, AsManyHaveATurnAsTheCapacityHoldsOfWhatTheyWant) {
  EXPECT_EQ(turns_of(10, 32), 4u);
  EXPECT_EQ(share.of(kCapacity), 32u);
  EXPECT_TRUE(share.has_waiting());
}

TEST_F(FlowShareTest, WhoWantsLittleLeavesRoomForMore) { EXPECT_EQ(turns_of(10, 16), 8u); }

TEST_F(FlowShareTest, NobodysPartIsSoSmallThatItIsNotWorthATurn) { EXPECT_EQ(turns_of(10, 1), 8u); }

TEST_F(FlowShareTest, NobodysPartIsSoLargeThatOthersCannotSendMeanwhile) {
  EXPECT_EQ(turns_of(10, 1'000'000'000'000), 4u);
}

TEST_F(FlowShareTest, APeerThatHoldsLessThanAPartIsSentToByOneAtATime) {
  EXPECT_EQ(turns_of(3, 16, 5), 1u);
  EXPECT_EQ(share.of(5), 5u);
}

TEST_F(FlowShareTest, OfPacketsOfOtherSizesThePeerHoldsOtherNumbers) {
  EXPECT_TRUE(enter(0, 16, 16));  // all that the peer holds of large packets
  EXPECT_FALSE(enter(1, 16, 1024));
  share.leave(place(0));
  EXPECT_TRUE(place(1).has_turn());  // a sixty-fourth of what the peer holds of small ones
  EXPECT_FALSE(enter(2, 16, 16));
  EXPECT_FALSE(enter(3, 16, 1024));  // waits behind earlier members
}

TEST_F(FlowShareTest, ATurnGoesToWhoHasWaitedLongest) {
  ASSERT_EQ(turns_of(6, 32), 4u);
  EXPECT_TRUE(place(4).waits());
  share.leave(place(2));
  EXPECT_TRUE(place(2).is_out());
  EXPECT_TRUE(place(4).has_turn());
  EXPECT_TRUE(place(5).waits());
  EXPECT_FALSE(enter(2, 32));
  share.leave(place(0));
  share.leave(place(1));
  EXPECT_EQ(told, (std::vector<std::size_t>{4, 5, 2}));
  EXPECT_FALSE(share.has_waiting());
}

TEST_F(FlowShareTest, OneLongTurnThatEndsMakesRoomForSeveralShortOnes) {
  ASSERT_EQ(turns_of(4, 32), 4u);
  for (std::size_t i = 4; i < 7; ++i) EXPECT_FALSE(enter(i, 16));
  share.leave(place(0));
  EXPECT_EQ(told, (std::vector<std::size_t>{4, 5}));
}

TEST_F(FlowShareTest, WhoWaitsMaySayThatThereIsMoreByNow) {
  ASSERT_EQ(turns_of(3, 32), 3u);
  EXPECT_TRUE(enter(3, 16));
  EXPECT_TRUE(enter(4, 16));
  EXPECT_FALSE(enter(5, 16));
  EXPECT_FALSE(enter(5, 32));
  share.leave(place(3));
  EXPECT_TRUE(place(5).waits());
  share.leave(place(4));
  EXPECT_TRUE(place(5).has_turn());
}

TEST_F(FlowShareTest, WhoWaitsNeedNotSaySoAgainUntilItMakesADifference) {
  EXPECT_FALSE(place(4).waits_with(1));
  ASSERT_EQ(turns_of(4, 32), 4u);
  ASSERT_FALSE(enter(4, 1));
  EXPECT_TRUE(place(4).waits_with(16));
  EXPECT_FALSE(place(4).waits_with(17));
  ASSERT_FALSE(enter(4, 17));
  EXPECT_TRUE(place(4).waits_with(17));
  ASSERT_FALSE(enter(4, 32));
  EXPECT_TRUE(place(4).waits_with(1000));
  share.leave(place(0));
  EXPECT_FALSE(place(4).waits_with(1));
}

TEST_F(FlowShareTest, WhoHasATurnKeepsItAsItIs) {
  ASSERT_EQ(turns_of(8, 16), 8u);
  EXPECT_TRUE(enter(0, 32));
  share.leave(place(0));
  EXPECT_TRUE(enter(8, 16));
  EXPECT_FALSE(enter(9, 16));
}

TEST_F(FlowShareTest, WhoLeavesTheQueueIsToldOfNothing) {
  ASSERT_EQ(turns_of(6, 32), 4u);
  share.leave(place(4));
  share.leave(place(0));
  EXPECT_EQ(told, std::vector<std::size_t>{5});
}

TEST_F(FlowShareTest, WhatWasTakenIsAllGivenBack) {
  ASSERT_EQ(turns_of(10, 32), 4u);
  for (std::size_t i = 0; i < 10; ++i) share.leave(place(i));
  EXPECT_EQ(told.size(), 6u);
  EXPECT_EQ(turns_of(10, 16), 8u);
}

}  // namespace
}  // namespace verbena::requester
