// SPDX-License-Identifier: BSD-2-Clause
// Events wait in their order, are taken back or moved with all that belongs to them, and count
// against the share of the process that has not read them.
#include "verbena/cm/event_channels.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace verbena::cm {
namespace {

constexpr ChannelId kChannel = 1;
constexpr ChannelId kOther = 2;
constexpr limits::Holder kProcess = 5;
constexpr limits::Holder kOtherProcess = 6;

class EventChannelsTest : public testing::Test {
 protected:
  EventChannelsTest() {
    channels_.open(kChannel, kProcess);
    channels_.open(kOther, kOtherProcess);
  }
  void push(IdHandle owner, std::uint64_t argument, std::uint32_t membership = 0,
            IdHandle request = 0, ChannelId channel = kChannel) {
    RdmaEvent event;
    event.owner = owner;
    event.argument = argument;
    event.membership = membership;
    event.request = request;
    channels_.push(channel, event);
  }
  std::vector<std::uint64_t> read(ChannelId channel) {
    std::vector<std::uint64_t> arguments;
    while (const auto event = channels_.pop(channel)) arguments.push_back(event->argument);
    return arguments;
  }
  void expect_unread(std::size_t first, std::size_t second) {
    EXPECT_EQ(objects_.held_by(kProcess), first);
    EXPECT_EQ(objects_.held_by(kOtherProcess), second);
  }

  limits::FairShare objects_{100};
  EventChannels channels_{objects_};
};

using Arguments = std::vector<std::uint64_t>;

TEST_F(EventChannelsTest, AChannelIsOpenUntilItIsClosed) {
  EXPECT_EQ(channels_.size(), 2u);
  EXPECT_EQ(channels_.process_of(kOther), kOtherProcess);
  channels_.open(kOther, kProcess);
  EXPECT_EQ(channels_.process_of(kOther), kOtherProcess) << "it was open";
  channels_.close(kOther);
  EXPECT_FALSE(channels_.contains(kOther));
  EXPECT_FALSE(channels_.pop(kOther));
  EXPECT_EQ(channels_.waiting(kOther), 0u);
  EXPECT_EQ(channels_.peek(kOther, 0), nullptr);
}

TEST_F(EventChannelsTest, EventsWaitInTheirOrderAndCountUntilTheyAreRead) {
  EXPECT_FALSE(channels_.is_any_waiting());
  for (const std::uint64_t i : {1, 2, 3}) push(7, i);
  EXPECT_TRUE(channels_.is_any_waiting());
  EXPECT_EQ(channels_.waiting(kChannel), 3u);
  EXPECT_EQ(channels_.peek(kChannel, 1)->argument, 2u);
  EXPECT_EQ(channels_.peek(kChannel, 3), nullptr);
  expect_unread(3, 0);
  EXPECT_EQ(channels_.pop(kChannel)->argument, 1u);
  expect_unread(2, 0);
  EXPECT_EQ(read(kChannel), (Arguments{2, 3}));
  expect_unread(0, 0);
  EXPECT_FALSE(channels_.is_any_waiting());
}

TEST_F(EventChannelsTest, EachEventAndEachChangeWakes) {
  push(7, 1);
  channels_.wake(kOther, 8);
  const std::vector<Wakeup> wakeups = channels_.take_wakeups();
  ASSERT_EQ(wakeups.size(), 2u);
  EXPECT_EQ(wakeups[0].channel, kChannel);
  EXPECT_EQ(wakeups[0].events, 1u);
  EXPECT_EQ(wakeups[0].changed, 0u);
  EXPECT_EQ(wakeups[1].channel, kOther);
  EXPECT_EQ(wakeups[1].events, 0u);
  EXPECT_EQ(wakeups[1].changed, 8u);
  EXPECT_TRUE(channels_.take_wakeups().empty());
}

TEST_F(EventChannelsTest, WhatIsTakenBackIsOfOneOwnerOrOneMembership) {
  push(7, 1, 30);
  push(8, 2);
  push(7, 3, 0, 90);
  push(7, 4, 31);
  push(7, 5, 0, 91);
  EventChannels::Gone gone = channels_.take_back(kChannel, 7, 31);
  EXPECT_EQ(gone.events, 1u);
  EXPECT_TRUE(gone.requests.empty());
  EXPECT_EQ(channels_.take_back(kChannel, 8, 31).events, 0u);
  gone = channels_.take_back(kChannel, 7, 0);
  EXPECT_EQ(gone.events, 3u);
  EXPECT_EQ(gone.requests, (std::vector<IdHandle>{90, 91}));
  expect_unread(1, 0);
  EXPECT_EQ(read(kChannel), Arguments{2});
}

TEST_F(EventChannelsTest, WhatMovesComesLastAndIsOfTheOthersShare) {
  push(7, 1, 30);
  push(8, 2);
  push(7, 3, 0, 90);
  push(9, 4, 0, 0, kOther);
  channels_.take_wakeups();
  const EventChannels::Gone gone = channels_.move(kChannel, kOther, 7);
  EXPECT_EQ(gone.events, 2u);
  EXPECT_EQ(gone.requests, std::vector<IdHandle>{90});
  expect_unread(1, 3);
  const std::vector<Wakeup> wakeups = channels_.take_wakeups();
  ASSERT_EQ(wakeups.size(), 1u);
  EXPECT_EQ(wakeups[0].channel, kOther);
  EXPECT_EQ(wakeups[0].events, 2u);
  EXPECT_EQ(read(kChannel), Arguments{2});
  EXPECT_EQ(read(kOther), (Arguments{4, 1, 3}));
  channels_.move(kChannel, kOther, 7);
  EXPECT_TRUE(channels_.take_wakeups().empty()) << "nothing moved";
}

TEST_F(EventChannelsTest, AreConsistentWhenEachOwnerIsThere) {
  push(7, 1);
  push(8, 1, 0, 0, kOther);
  const auto is_here = [](IdHandle owner, ChannelId channel) { return owner == channel + 6; };
  EXPECT_TRUE(channels_.is_consistent(is_here));
  push(8, 1);
  EXPECT_FALSE(channels_.is_consistent(is_here));
}

}  // namespace
}  // namespace verbena::cm
