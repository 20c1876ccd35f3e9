// SPDX-License-Identifier: BSD-2-Clause
// When a thread that posts also receives.
#include "verbena/progress/posting.hpp"

#include <gtest/gtest.h>

namespace verbena::provider {
namespace {

constexpr TimeNs kStart = 1'000'000;

// Posts every `step` until `end`. Returns how often a post had to receive, which it does.
int receives(Posting& posting, TimeNs step, TimeNs end) {
  std::uint32_t polls = 0;
  for (TimeNs now = kStart; now < end; now += step) {
    if (posting.goes_on(now, polls)) ++polls;
  }
  return static_cast<int>(polls);
}

TEST(Posting, OnePostIsOnlyThat) {
  Posting posting;
  EXPECT_FALSE(posting.goes_on(kStart, 0));
}

TEST(Posting, PostsFarApartAreEachOnlyThat) {
  Posting posting;
  EXPECT_EQ(receives(posting, 100'000, kStart + 10'000'000), 0);
}

TEST(Posting, GoesOnForAWhileAndThenReceivesNowAndThen) {
  for (const TimeNs step : {100, 1'000, 7'000, 25'000}) {
    Posting posting;
    const int count = receives(posting, step, kStart + 1'000'000);
    EXPECT_GE(count, 15) << step;
    EXPECT_LE(count, 50) << step;
  }
}

TEST(Posting, WhoPollsNeedNot) {
  Posting posting;
  for (const TimeNs step : {1'000, 25'000}) {
    std::uint32_t polls = 0;
    for (TimeNs now = kStart; now < kStart + 1'000'000; now += step) {
      EXPECT_FALSE(posting.goes_on(now, ++polls)) << step;
    }
  }
}

}  // namespace
}  // namespace verbena::provider
