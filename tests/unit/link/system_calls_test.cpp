// SPDX-License-Identifier: BSD-2-Clause
// What system calls return with either end of a pair of sockets: an amount, or the negative error.
// They never change errno.
#include "verbena/link/system_calls.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace verbena::link {
namespace {

using Bytes = std::array<std::uint8_t, 3>;

constexpr int kNobodysErrno = 4711;
constexpr int kNoDescriptor = -1;

class SystemCalls : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM, 0, ends_), 0);
    errno = kNobodysErrno;
  }
  void TearDown() override {
    EXPECT_EQ(errno, kNobodysErrno);
    for (const int fd : ends_) ::close(fd);
  }

  static iovec part_of(Bytes& bytes) { return {bytes.data(), bytes.size()}; }
  static msghdr message_of(iovec& part) {
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    return message;
  }

  int ends_[2] = {kNoDescriptor, kNoDescriptor};
  const Bytes sent_{1, 2, 3};
  Bytes received_{};
};

TEST_F(SystemCalls, WhatIsSentToOneEndIsReceivedWithItsLength) {
  EXPECT_EQ(send_to(ends_[0], sent_, MSG_DONTWAIT, nullptr, 0), 3);
  sockaddr_un source{};
  socklen_t size = sizeof source;
  EXPECT_EQ(
      receive_from(ends_[1], received_, MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&source), &size),
      3);
  EXPECT_EQ(received_, sent_);
  EXPECT_LT(size, sizeof source) << "the sixth word: an end without a name";
}

TEST_F(SystemCalls, SoAreMessages) {
  Bytes out = sent_;
  iovec from = part_of(out);
  EXPECT_EQ(send_message(ends_[0], message_of(from), MSG_DONTWAIT), 3);
  iovec to = part_of(received_);
  msghdr message = message_of(to);
  EXPECT_EQ(receive_message(ends_[1], message, MSG_DONTWAIT), 3);
  EXPECT_EQ(received_, sent_);
}

TEST_F(SystemCalls, SoAreBytes) {
  EXPECT_EQ(write_bytes(ends_[0], sent_.data(), sent_.size()), 3);
  EXPECT_EQ(read_bytes(ends_[1], received_.data(), received_.size()), 3);
  EXPECT_EQ(received_, sent_);
}

TEST_F(SystemCalls, AnErrorIsNegative) {
  EXPECT_EQ(receive_from(ends_[1], received_, MSG_DONTWAIT, nullptr, nullptr), -EAGAIN);
  EXPECT_EQ(send_to(kNoDescriptor, sent_, 0, nullptr, 0), -EBADF);
  iovec part = part_of(received_);
  msghdr message = message_of(part);
  EXPECT_EQ(send_message(kNoDescriptor, message, 0), -EBADF);
  EXPECT_EQ(receive_message(kNoDescriptor, message, 0), -EBADF);
  EXPECT_EQ(write_bytes(kNoDescriptor, sent_.data(), sent_.size()), -EBADF);
  EXPECT_EQ(read_bytes(kNoDescriptor, received_.data(), received_.size()), -EBADF);
  EXPECT_EQ(open_file("/proc/self/none", O_RDONLY), -ENOENT);
  epoll_event event{};
  EXPECT_EQ(look_at(kNoDescriptor, event), -EBADF);
}

TEST_F(SystemCalls, AFileIsOpened) {
  const int fd = open_file("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(read_bytes(fd, received_.data(), received_.size()), 3);
  ::close(fd);
}

TEST_F(SystemCalls, ALookFindsWhatIsReadable) {
  const int set = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event wanted{EPOLLIN, {.u64 = 5}};
  ASSERT_EQ(::epoll_ctl(set, EPOLL_CTL_ADD, ends_[1], &wanted), 0);
  epoll_event event{};
  EXPECT_EQ(look_at(set, event), 0);
  ASSERT_EQ(write_bytes(ends_[0], sent_.data(), sent_.size()), 3);
  EXPECT_EQ(look_at(set, event), 1);
  EXPECT_EQ(event.data.u64, 5u);
  ::close(set);
}

}  // namespace
}  // namespace verbena::link
