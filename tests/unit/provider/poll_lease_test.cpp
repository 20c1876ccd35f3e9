// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/progress/poll_lease.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/timerfd.h>

namespace verbena::provider {
namespace {

constexpr long kHour = 3600;

// Sets the timer so far ahead that its rest shows whether a poll has set it again.
void set_to_an_hour(const PollLease& lease) {
  const itimerspec hour{{}, {kHour, 0}};
  ASSERT_EQ(::timerfd_settime(lease.fd(), 0, &hour, nullptr), 0);
}
bool was_put_off(const PollLease& lease) {
  itimerspec rest{};
  EXPECT_EQ(::timerfd_gettime(lease.fd(), &rest), 0);
  return rest.it_value.tv_sec < kHour / 2;
}

TEST(PollLease, IsPutOffByAPollNowAndThen) {
  PollLease lease;
  ASSERT_EQ(lease.open(), 0);
  lease.begin(1000);
  set_to_an_hour(lease);
  lease.note_poll(1000 + PollLease::kRenewal - 1);
  EXPECT_FALSE(was_put_off(lease));
  lease.note_poll(1000 + PollLease::kRenewal);
  EXPECT_TRUE(was_put_off(lease));
  set_to_an_hour(lease);
  lease.note_poll(1000 + 2 * PollLease::kRenewal - 1);
  EXPECT_FALSE(was_put_off(lease));
}

TEST(PollLease, IsNobodysBusinessBeforeAndAfter) {
  PollLease lease;
  ASSERT_EQ(lease.open(), 0);
  set_to_an_hour(lease);
  lease.note_poll(1'000'000'000);
  EXPECT_FALSE(was_put_off(lease));
  lease.begin(1'000'000'000);
  lease.end();
  set_to_an_hour(lease);
  lease.note_poll(2'000'000'000);
  EXPECT_FALSE(was_put_off(lease));
}

TEST(PollLease, IsToldByItsDescriptorUntilItBeginsAnew) {
  PollLease lease;
  ASSERT_EQ(lease.open(), 0);
  lease.begin(1000);
  pollfd told{lease.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&told, 1, -1), 1);
  EXPECT_EQ(::poll(&told, 1, 0), 1) << "nobody reads it";
  lease.begin(2000);
  set_to_an_hour(lease);
  EXPECT_EQ(::poll(&told, 1, 0), 0);
}

}  // namespace
}  // namespace verbena::provider
