// SPDX-License-Identifier: BSD-2-Clause
#include "absence.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/timerfd.h>

namespace verbena::provider {
namespace {

constexpr long kHour = 3600;

// Sets the timer to so much that it tells of itself whether it has been put off.
void set_to_an_hour(const Absence& absence) {
  const itimerspec hour{{}, {kHour, 0}};
  ASSERT_EQ(::timerfd_settime(absence.fd(), 0, &hour, nullptr), 0);
}
bool was_put_off(const Absence& absence) {
  itimerspec rest{};
  EXPECT_EQ(::timerfd_gettime(absence.fd(), &rest), 0);
  return rest.it_value.tv_sec < kHour / 2;
}

TEST(Absence, IsPutOffByAPollNowAndThen) {
  Absence absence;
  ASSERT_EQ(absence.open(), 0);
  absence.begin(1000);
  set_to_an_hour(absence);
  absence.note_poll(1000 + Absence::kRenewal - 1);
  EXPECT_FALSE(was_put_off(absence));
  absence.note_poll(1000 + Absence::kRenewal);
  EXPECT_TRUE(was_put_off(absence));
  set_to_an_hour(absence);
  absence.note_poll(1000 + 2 * Absence::kRenewal - 1);
  EXPECT_FALSE(was_put_off(absence));
}

TEST(Absence, IsNobodysBusinessBeforeAndAfter) {
  Absence absence;
  ASSERT_EQ(absence.open(), 0);
  set_to_an_hour(absence);
  absence.note_poll(1'000'000'000);
  EXPECT_FALSE(was_put_off(absence));
  absence.begin(1'000'000'000);
  absence.end();
  set_to_an_hour(absence);
  absence.note_poll(2'000'000'000);
  EXPECT_FALSE(was_put_off(absence));
}

TEST(Absence, IsToldByItsDescriptorUntilItBeginsAnew) {
  Absence absence;
  ASSERT_EQ(absence.open(), 0);
  absence.begin(1000);
  pollfd told{absence.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&told, 1, -1), 1);
  EXPECT_EQ(::poll(&told, 1, 0), 1) << "nobody reads it";
  absence.begin(2000);
  set_to_an_hour(absence);
  EXPECT_EQ(::poll(&told, 1, 0), 0);
}

}  // namespace
}  // namespace verbena::provider
