// SPDX-License-Identifier: BSD-2-Clause
// How long requests wait for a listener, and when they are offered to one.
#include "verbena/cm/early_requests.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace verbena::cm {
namespace {

constexpr TimeNs kPatience = EarlyRequests::kListenPatience;
constexpr TimeNs kSettle = EarlyRequests::kListenSettle;

class EarlyRequestsTest : public testing::Test {
 protected:
  bool add(TimeNs now, CommId id) { return early_.add(now, {CmEventKind::kReqReceived, id}); }
  // Offers all requests to a listener that takes only this one.
  std::vector<CommId> offer(CommId taken) {
    std::vector<CommId> offered;
    early_.offer([&](const CmEvent& request) {
      offered.push_back(request.id);
      return request.id == taken;
    });
    return offered;
  }

  EarlyRequests early_;
};

using Ids = std::vector<CommId>;

TEST_F(EarlyRequestsTest, WaitUntilTheirPatienceEnds) {
  EXPECT_EQ(early_.next_deadline(), kNever);
  EXPECT_TRUE(add(0, 1));
  EXPECT_TRUE(add(5, 2));
  EXPECT_EQ(early_.next_deadline(), kPatience);
  EXPECT_FALSE(early_.take_expired(kPatience - 1));
  EXPECT_EQ(early_.take_expired(kPatience)->id, 1u);
  EXPECT_FALSE(early_.take_expired(kPatience));
  EXPECT_EQ(early_.next_deadline(), kPatience + 5);
}

TEST_F(EarlyRequestsTest, AListenerGetsThemWhenItHasSettled) {
  early_.on_listen(0);
  EXPECT_EQ(early_.next_deadline(), kNever) << "nobody waits";
  add(0, 1);
  add(0, 2);
  add(0, 3);
  EXPECT_FALSE(early_.take_offer(kPatience));
  early_.on_listen(7);
  early_.on_listen(8);
  EXPECT_EQ(early_.next_deadline(), 7 + kSettle) << "the first listener counts";
  EXPECT_FALSE(early_.take_offer(6 + kSettle));
  EXPECT_TRUE(early_.take_offer(7 + kSettle));
  EXPECT_FALSE(early_.take_offer(7 + kSettle)) << "once";
  EXPECT_EQ(offer(2), (Ids{1, 2, 3}));
  EXPECT_EQ(offer(3), (Ids{1, 3})) << "who was not taken waits in the same order";
  EXPECT_EQ(early_.next_deadline(), kPatience);
}

TEST_F(EarlyRequestsTest, WhoCanWaitNoLongerIsOfferedBeforeTheListenerHasSettled) {
  add(0, 1);
  early_.on_listen(kPatience - 1);
  EXPECT_EQ(early_.next_deadline(), kPatience);
  EXPECT_TRUE(early_.take_offer(kPatience));
}

TEST_F(EarlyRequestsTest, OnlySoManyWait) {
  for (CommId id = 1; id <= EarlyRequests::kMaxEarly; ++id) ASSERT_TRUE(add(0, id));
  EXPECT_FALSE(add(0, 5000));
  ASSERT_TRUE(early_.take_expired(kPatience));
  EXPECT_TRUE(add(kPatience, 5000));
}

}  // namespace
}  // namespace verbena::cm
