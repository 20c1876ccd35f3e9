// SPDX-License-Identifier: BSD-2-Clause
// Descriptors that a thread sleeps on: while they are readable, or each time they become so.
#include "verbena/events/wait_set.hpp"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include <cerrno>
#include <vector>

namespace verbena::provider {
namespace {

class WaitSetTest : public testing::Test {
 protected:
  static void make_readable(const control::UniqueFd& fd) { ::eventfd_write(fd.get(), 1); }
  std::vector<int> reported() {
    epoll_event events[4];
    const int count = ::epoll_wait(set_.fd(), events, 4, 0);
    std::vector<int> numbers;
    for (int i = 0; i < count; ++i) numbers.push_back(events[i].data.fd);
    return numbers;
  }
  control::UniqueFd first_{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  control::UniqueFd second_{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  WaitSet set_;
};

TEST_F(WaitSetTest, ReportsAsLongAsAMemberIsReadable) {
  ASSERT_TRUE(set_.make({{first_.get()}, {-1}, {second_.get()}}));
  EXPECT_TRUE(reported().empty());
  make_readable(second_);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(reported(), std::vector<int>{second_.get()});
}

TEST_F(WaitSetTest, ReportsEachTimeThatAMemberBecomesReadable) {
  ASSERT_TRUE(set_.make({{first_.get(), true}, {second_.get()}}));
  for (int i = 0; i < 3; ++i) {
    make_readable(first_);
    EXPECT_EQ(reported(), std::vector<int>{first_.get()});
    EXPECT_TRUE(reported().empty());
  }
}

// A busy descriptor costs a look with each packet as long as it is in the set.
TEST_F(WaitSetTest, ABusyMemberLeavesWhereNobodySleepsAnyMore) {
  ASSERT_TRUE(set_.make({{first_.get()}}));
  make_readable(second_);
  EXPECT_TRUE(reported().empty());
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(set_.admit({second_.get(), -1}));
    int waits = 0;
    for (; !reported().empty() && waits < 1000; ++waits) set_.note_no_sleep();
    EXPECT_GT(waits, 10);
    EXPECT_LT(waits, 1000);
  }
}

TEST_F(WaitSetTest, ABusyMemberStaysWhereSomebodySleepsNowAndThen) {
  ASSERT_TRUE(set_.make({{first_.get()}}));
  make_readable(second_);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(i % 10 != 0 || set_.admit({second_.get(), -1}));
    set_.note_no_sleep();
    ASSERT_EQ(reported(), std::vector<int>{second_.get()});
  }
}

TEST_F(WaitSetTest, WhatCannotBeWaitedForIsNotAdmitted) {
  ASSERT_TRUE(set_.make({{first_.get()}}));
  errno = 0;
  EXPECT_FALSE(set_.admit({1 << 20, -1}));
  EXPECT_EQ(errno, 0);
  set_.note_no_sleep();
  EXPECT_TRUE(set_.admit({second_.get(), -1}));
}

TEST_F(WaitSetTest, IsNoneWhereNoDescriptorIsLeft) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  errno = 0;
  EXPECT_FALSE(set_.make({{first_.get()}}));
  EXPECT_EQ(errno, 0);
  EXPECT_FALSE(set_);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(set_.make({{first_.get()}}));
}

}  // namespace
}  // namespace verbena::provider
