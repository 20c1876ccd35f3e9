// SPDX-License-Identifier: BSD-2-Clause
// What a process is told when its share is used up.
#include "verbena/cm/shares.hpp"

#include <gtest/gtest.h>

namespace verbena::cm {
namespace {

constexpr limits::Holder kGreedy = 5;
constexpr limits::Holder kHonest = 6;

TEST(SharesTest, WhoHasHalfOfAllObjectsIsToldWhyItGetsNoMore) {
  Shares shares;
  EXPECT_TRUE(shares.may_add_object(kGreedy));
  shares.objects.take(kGreedy, Shares::kObjects / 2);
  EXPECT_EQ(shares.take_reason(), "");
  EXPECT_FALSE(shares.may_add_object(kGreedy));
  EXPECT_EQ(shares.take_reason(),
            "process 5 has 131072 rdma_cm identifiers, memberships and unread events, and 131072 "
            "are left for all others: no process may have more than that");
  EXPECT_EQ(shares.take_reason(), "") << "once";
  EXPECT_TRUE(shares.may_add_object(kHonest));
  EXPECT_TRUE(shares.may_add_port(kGreedy));
}

TEST(SharesTest, PortsAreCountedApart) {
  Shares shares;
  shares.ports.take(kGreedy, Shares::kPorts / 2);
  EXPECT_FALSE(shares.may_add_port(kGreedy));
  EXPECT_EQ(shares.take_reason(),
            "process 5 has 14116 ports of rdma_cm, and 14116 are left for all others: no process "
            "may have more than that");
  EXPECT_TRUE(shares.may_add_port(kHonest));
  EXPECT_TRUE(shares.may_add_object(kGreedy));
}

}  // namespace
}  // namespace verbena::cm
