// SPDX-License-Identifier: BSD-2-Clause
// Messages over a real socket pair: descriptors, timeouts, ends, and unasked messages.
#include "verbena/control/channel.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "samples.hpp"

namespace verbena::control {
namespace {

class ChannelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    client_ = Channel(UniqueFd(fds[0]));
    daemon_ = Channel(UniqueFd(fds[1]));
  }

  Channel client_;
  Channel daemon_;
};

TEST_F(ChannelTest, CarriesDescriptors) {
  int pipe_fds[2];
  ASSERT_EQ(::pipe(pipe_fds), 0);
  const UniqueFd reading(pipe_fds[0]);
  const UniqueFd writing(pipe_fds[1]);
  const int given[] = {writing.get()};
  ASSERT_TRUE(daemon_.send(sample<DeviceOpened>(), 1, given).ok());
  std::array<UniqueFd, kMaxFds> taken;
  const auto opened = client_.call<DeviceOpened>(OpenDevice{"verbena0"}, 1000, &taken);
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->device, sample_device());
  ASSERT_TRUE(static_cast<bool>(taken[0]));
  EXPECT_FALSE(static_cast<bool>(taken[1]));
  ASSERT_EQ(::write(taken[0].get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(::read(reading.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
}

TEST_F(ChannelTest, WhatIsSaidUnaskedIsNotTheReply) {
  ASSERT_TRUE(daemon_.send(sample<PortEvent>(), kDaemonSequence | 1).ok());
  ASSERT_TRUE(daemon_.send(SlotAdded{5}, 1).ok());
  int unasked = 0;
  const auto reply = client_.call<SlotAdded>(ExtraSlot{}, 1000, nullptr, [&unasked](Incoming&& in) {
    EXPECT_EQ(in.type(), MessageType::kPortEvent);
    ++unasked;
  });
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->slot, 5u);
  EXPECT_EQ(unasked, 1);
}

TEST_F(ChannelTest, TheLateAnswerToAnEarlierCallIsNotTheReply) {
  const auto first = client_.call<SlotAdded>(ExtraSlot{}, 0);
  ASSERT_FALSE(first.ok());
  EXPECT_EQ(first.error().code, ETIMEDOUT);
  ASSERT_TRUE(daemon_.send(SlotAdded{1}, 1).ok());
  ASSERT_TRUE(daemon_.send(SlotAdded{2}, 2).ok());
  const auto second = client_.call<SlotAdded>(ExtraSlot{}, 1000);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->slot, 2u);
}

TEST_F(ChannelTest, TheLateRefusalOfAnEarlierCallIsNotTheReply) {
  EXPECT_EQ(client_.call<SlotAdded>(ExtraSlot{}, 0).error().code, ETIMEDOUT);
  ASSERT_TRUE(daemon_.send(Refused{ENOENT, "the owner is gone"}, 1).ok());
  ASSERT_TRUE(daemon_.send(SlotAdded{2}, 2).ok());
  const auto second = client_.call<SlotAdded>(ExtraSlot{}, 1000);
  ASSERT_TRUE(second.ok()) << second.error().text;
  EXPECT_EQ(second->slot, 2u);
}

TEST_F(ChannelTest, RefusedIsTheError) {
  ASSERT_TRUE(daemon_.send(Refused{ENOSPC, "all slots are in use"}, 1).ok());
  const auto reply = client_.call<SlotAdded>(ExtraSlot{}, 1000);
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().code, ENOSPC);
  EXPECT_EQ(reply.error().text, "all slots are in use");
}

TEST_F(ChannelTest, AnotherVersionIsSaidInWords) {
  std::vector<std::uint8_t> packet = encode(SlotAdded{5}, 1);
  packet[4] = kProtocolVersion + 1;
  ASSERT_TRUE(send_packet(daemon_.fd(), packet, {}, 0).ok());
  const auto reply = client_.call<SlotAdded>(ExtraSlot{}, 1000);
  ASSERT_FALSE(reply.ok());
  EXPECT_NE(reply.error().text.find("another protocol version"), std::string::npos);
}

TEST_F(ChannelTest, TheEndIsAnError) {
  daemon_ = Channel();
  EXPECT_EQ(client_.receive(1000).error().code, ECONNRESET);
  EXPECT_EQ(client_.send(Hold{}, 1).error().code, ECONNRESET);
}

// The client may have sent something when it is turned away, or may send only afterwards.
TEST_F(ChannelTest, WhoLeavesSaysWhy) {
  for (const bool has_spoken : {true, false}) {
    SetUp();
    if (has_spoken) {
      ASSERT_TRUE(client_.send(Hold{}, 7).ok());
      ASSERT_TRUE(client_.send(Hold{}, 8).ok());
    }
    stop_receiving(daemon_.fd());
    ASSERT_TRUE(daemon_.send(Refused{EMFILE, "no descriptor left"}, 0).ok());
    daemon_ = Channel();
    const auto reply = client_.call<SlotAdded>(ExtraSlot{}, 1000);
    ASSERT_FALSE(reply.ok());
    EXPECT_EQ(reply.error().code, EMFILE);
    EXPECT_EQ(reply.error().text, "no descriptor left");
  }
}

TEST_F(ChannelTest, TooLongIsRefusedAtBothEnds) {
  const std::vector<std::uint8_t> giant(kMaxMessage + 1);
  EXPECT_EQ(send_packet(client_.fd(), giant, {}, 0).error().code, EMSGSIZE);
  ASSERT_EQ(::send(client_.fd(), giant.data(), giant.size(), 0),
            static_cast<ssize_t>(giant.size()));
  EXPECT_EQ(daemon_.receive(1000).error().code, EPROTO);
}

TEST_F(ChannelTest, ABorrowedDescriptorStaysOpen) {
  { const Channel borrowed(client_.fd(), Channel::Ownership::kBorrowed); }
  EXPECT_TRUE(client_.send(Hold{}, 1).ok());
  EXPECT_TRUE(daemon_.receive(1000).ok());
}

TEST_F(ChannelTest, NothingThereIsAgain) {
  EXPECT_EQ(receive_packet(client_.fd(), MSG_DONTWAIT).error().code, EAGAIN);
}

}  // namespace
}  // namespace verbena::control
