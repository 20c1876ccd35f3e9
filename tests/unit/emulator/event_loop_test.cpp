// SPDX-License-Identifier: BSD-2-Clause
// What remains after a handler has failed.
#include "event_loop.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <new>

namespace verbena::daemon {
namespace {

TEST(EventLoopTest, WhatIsWatchedStaysWatchedWhenItsHandlerFails) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  EventLoop loop;
  int calls = 0;
  loop.watch(ends[0], [&] {
    if (++calls == 1) throw std::bad_alloc();
    loop.stop();
  });
  EXPECT_THROW(loop.run(), std::bad_alloc);
  loop.after(30'000'000'000, [&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(calls, 2);
  loop.unwatch(ends[0]);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace verbena::daemon
