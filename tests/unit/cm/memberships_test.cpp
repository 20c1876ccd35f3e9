// SPDX-License-Identifier: BSD-2-Clause
// Memberships are found by number and by owner.
#include "verbena/cm/memberships.hpp"

#include <gtest/gtest.h>

#include <iterator>

namespace verbena::cm {
namespace {

using Numbers = std::vector<std::uint32_t>;

TEST(MembershipsTest, AreKnownByNumberAndByOwner) {
  Memberships memberships;
  RdmaId a, b;
  a.handle = 7;
  b.handle = 8;
  const std::uint32_t first = memberships.add(a, 50);
  const std::uint32_t second = memberships.add(b, 51);
  const std::uint32_t third = memberships.add(a, 52);
  EXPECT_NE(first, 0u) << "which is none";
  EXPECT_EQ(a.memberships, (Numbers{first, third}));
  EXPECT_EQ(b.memberships, Numbers{second});
  EXPECT_EQ(memberships.find(third)->owner, 7u);
  EXPECT_EQ(memberships.find(third)->uid, 52u);
  EXPECT_EQ(memberships.find(third)->events_reported, 0u);

  memberships.remove(a, first);
  EXPECT_EQ(a.memberships, Numbers{third});
  EXPECT_EQ(memberships.find(first), nullptr);
  memberships.remove_all(a);
  EXPECT_TRUE(a.memberships.empty());
  EXPECT_EQ(memberships.find(third), nullptr);
  ASSERT_NE(memberships.find(second), nullptr);
  EXPECT_EQ(std::distance(memberships.begin(), memberships.end()), 1);
  EXPECT_EQ(memberships.begin()->first, second);
}

TEST(MembershipsTest, NoNumberIsGivenTwice) {
  Memberships memberships;
  RdmaId id;
  const std::uint32_t first = memberships.add(id, 1);
  memberships.remove(id, first);
  EXPECT_NE(memberships.add(id, 1), first);
}

}  // namespace
}  // namespace verbena::cm
