// SPDX-License-Identifier: BSD-2-Clause
// Events in a pipe: written whole, and taken back if their object is destroyed.
#include "verbena/events/event_pipe.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <vector>

namespace verbena::provider {
namespace {

class EventPipeTest : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    reader_.reset(ends[0]);
    const control::UniqueFd written(ends[1]);
    ASSERT_EQ(pipe_.open(ends[0]), 0);
  }
  std::vector<std::uint64_t> read_all() {
    std::vector<std::uint64_t> seen;
    CompletionEvent event{};
    while (::read(reader_.get(), &event, sizeof event) == sizeof event) seen.push_back(event.cq);
    return seen;
  }
  control::UniqueFd reader_;
  EventPipe pipe_;
};

TEST_F(EventPipeTest, IsReadInTheOrderOfWriting) {
  for (std::uint64_t i = 1; i <= 5; ++i) EXPECT_TRUE(pipe_.write(CompletionEvent{i}));
  EXPECT_EQ(read_all(), (std::vector<std::uint64_t>{1, 2, 3, 4, 5}));
}

TEST_F(EventPipeTest, TakesBackOneObjectsEventsAndKeepsTheOthersInOrder) {
  for (const std::uint64_t cq : {1, 7, 2, 7, 3}) pipe_.write(CompletionEvent{cq});
  EXPECT_EQ(pipe_.withdraw(7, sizeof(CompletionEvent)), 2u);
  EXPECT_EQ(read_all(), (std::vector<std::uint64_t>{1, 2, 3}));
}

TEST_F(EventPipeTest, CountsWhatNobodyHasRead) {
  EXPECT_EQ(pipe_.unread(sizeof(CompletionEvent)), 0u);
  constexpr std::uint64_t kCount = 140'000;  // more than the pipe holds
  for (std::uint64_t i = 1; i <= kCount; ++i) ASSERT_TRUE(pipe_.write(CompletionEvent{i}));
  EXPECT_TRUE(pipe_.holds_any());
  EXPECT_EQ(pipe_.unread(sizeof(CompletionEvent)), kCount);
  CompletionEvent event{};
  ASSERT_EQ(::read(reader_.get(), &event, sizeof event), static_cast<ssize_t>(sizeof event));
  EXPECT_EQ(pipe_.unread(sizeof(CompletionEvent)), kCount - 1);
}

TEST_F(EventPipeTest, TakesBackNothingFromAnEmptyPipe) {
  EXPECT_EQ(pipe_.withdraw(7, sizeof(CompletionEvent)), 0u);
}

// More than a pipe holds that has grown.
constexpr std::uint64_t kMany = 200'000;

TEST_F(EventPipeTest, WhatDoesNotFitComesAsThereIsRoom) {
  for (std::uint64_t i = 1; i <= kMany; ++i) ASSERT_TRUE(pipe_.write(CompletionEvent{i}));
  EXPECT_TRUE(pipe_.holds_any());
  std::uint64_t expected = 0;
  CompletionEvent event{};
  while (::read(reader_.get(), &event, sizeof event) == sizeof event) {
    ASSERT_EQ(event.cq, ++expected);
    // A new event goes behind those that are held back.
    if (expected <= 10) {
      ASSERT_TRUE(pipe_.write(CompletionEvent{kMany + expected}));
    }
    pipe_.fill();
  }
  EXPECT_EQ(expected, kMany + 10);
  EXPECT_FALSE(pipe_.holds_any());
}

// The reader may have emptied the pipe before it could see that something is held back.
TEST_F(EventPipeTest, WhatIsHeldBackComesWithTheNextEventIfTheReaderDoesNotAsk) {
  for (std::uint64_t i = 1; i <= kMany; ++i) ASSERT_TRUE(pipe_.write(CompletionEvent{i}));
  const std::uint64_t first = read_all().size();
  EXPECT_LT(first, kMany);
  ASSERT_TRUE(pipe_.write(CompletionEvent{kMany + 1}));
  std::uint64_t read = first;
  for (const std::uint64_t cq : read_all()) ASSERT_EQ(cq, ++read);
  EXPECT_GT(read, first);
}

TEST_F(EventPipeTest, ThePluginsOwnReaderFindsThemAll) {
  ASSERT_TRUE(pipe_.open_reader());
  for (std::uint64_t i = 1; i <= kMany; ++i) ASSERT_TRUE(pipe_.write(CompletionEvent{i}));
  CompletionEvent event{};
  for (std::uint64_t i = 1; i <= kMany; ++i) {
    ASSERT_EQ(pipe_.read(&event, sizeof event), static_cast<ssize_t>(sizeof event));
    ASSERT_EQ(event.cq, i);
  }
  EXPECT_EQ(pipe_.read(&event, sizeof event), 0);
}

TEST_F(EventPipeTest, TakesBackAlsoWhatIsHeldBack) {
  for (std::uint64_t i = 0; i < kMany; ++i)
    ASSERT_TRUE(pipe_.write(AsynchronousEvent{i % 3, 0, 0}));
  EXPECT_EQ(pipe_.withdraw(1, sizeof(AsynchronousEvent)), (kMany + 1) / 3);
  AsynchronousEvent event{};
  for (std::uint64_t i = 0; i < kMany; ++i) {
    if (i % 3 == 1) continue;
    ASSERT_EQ(::read(reader_.get(), &event, sizeof event), static_cast<ssize_t>(sizeof event)) << i;
    ASSERT_EQ(event.element, i % 3);
    pipe_.fill();
  }
  EXPECT_FALSE(pipe_.holds_any());
}

// In a forked child the parent still has the held-back events, and both share the pipe.
TEST_F(EventPipeTest, AbandonedItLeavesThePipeAlone) {
  for (std::uint64_t i = 1; i <= kMany; ++i) ASSERT_TRUE(pipe_.write(CompletionEvent{i}));
  pipe_.abandon();
  EXPECT_FALSE(pipe_.write(CompletionEvent{1}));
  EXPECT_EQ(pipe_.withdraw(1, sizeof(CompletionEvent)), 0u);
  pipe_.fill();
  const std::size_t left = read_all().size();
  EXPECT_GT(left, 0u);
  EXPECT_LT(left, kMany);
}

// The writer has lost the processor to the thread that it woke.
TEST_F(EventPipeTest, ARecordThatIsNotCountedYetIsReadByWhoLooks) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const control::UniqueFd read_end(ends[0]), put_off(ends[1]);
  EventPipe pipe;
  ASSERT_EQ(pipe.open(ends[0]), 0);
  ASSERT_TRUE(pipe.open_reader());
  CompletionEvent seen{};
  ASSERT_EQ(pipe.read(&seen, sizeof seen), 0);
  const CompletionEvent event{7};
  ASSERT_EQ(::write(put_off.get(), &event, sizeof event), static_cast<ssize_t>(sizeof event));
  pipe.look_into();
  ASSERT_EQ(pipe.read(&seen, sizeof seen), static_cast<ssize_t>(sizeof seen));
  EXPECT_EQ(seen.cq, 7u);
  EXPECT_EQ(pipe.read(&seen, sizeof seen), 0);
  ASSERT_TRUE(pipe.write(CompletionEvent{8}));
  ASSERT_EQ(pipe.read(&seen, sizeof seen), static_cast<ssize_t>(sizeof seen));
  EXPECT_EQ(seen.cq, 8u);
}

TEST_F(EventPipeTest, LeavesTheReadersModeAlone) {
  EventPipe other;
  ASSERT_EQ(::fcntl(reader_.get(), F_SETFL, 0), 0);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const control::UniqueFd read_end(ends[0]), write_end(ends[1]);
  ASSERT_EQ(other.open(write_end.get()), 0);
  EXPECT_EQ(::fcntl(write_end.get(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_TRUE(other.write(AsynchronousEvent{1, 2, 0}));
}

// The preload library's stand-in for a pipe where /proc is out of reach.
class EventSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    socket_.reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_un own{};
    own.sun_family = AF_UNIX;
    socklen_t size = sizeof own;
    auto* const address = reinterpret_cast<sockaddr*>(&own);
    ASSERT_EQ(::bind(socket_.get(), address, sizeof own.sun_family), 0);
    ASSERT_EQ(::getsockname(socket_.get(), address, &size), 0);
    ASSERT_EQ(::connect(socket_.get(), address, size), 0);
    ASSERT_EQ(pipe_.open(socket_.get()), 0);
  }
  std::uint64_t read_one() {
    CompletionEvent event{};
    const ssize_t got = ::recv(socket_.get(), &event, sizeof event, MSG_DONTWAIT);
    return got == sizeof event ? event.cq : 0;
  }
  control::UniqueFd socket_;  // without O_NONBLOCK
  EventPipe pipe_;
};

TEST_F(EventSocketTest, NeverWaitsAndKeepsOrderAndBorders) {
  constexpr std::uint64_t kMost = 5000;  // more than the socket holds
  for (std::uint64_t i = 1; i <= kMost; ++i) ASSERT_TRUE(pipe_.write(CompletionEvent{i}));
  EXPECT_TRUE(pipe_.holds_any());
  for (std::uint64_t i = 1; i <= kMost; ++i) {
    ASSERT_EQ(read_one(), i);
    pipe_.fill();
  }
  EXPECT_EQ(read_one(), 0u);
  EXPECT_FALSE(pipe_.holds_any());
}

TEST_F(EventSocketTest, TakesBackOneObjectsEvents) {
  EXPECT_EQ(pipe_.withdraw(7, sizeof(CompletionEvent)), 0u);
  for (const std::uint64_t cq : {1, 7, 2, 7, 3}) pipe_.write(CompletionEvent{cq});
  EXPECT_EQ(pipe_.withdraw(7, sizeof(CompletionEvent)), 2u);
  for (const std::uint64_t cq : {1, 2, 3, 0}) EXPECT_EQ(read_one(), cq);
}

TEST_F(EventSocketTest, HasNoReaderOfOurs) { EXPECT_FALSE(pipe_.open_reader()); }

}  // namespace
}  // namespace verbena::provider
