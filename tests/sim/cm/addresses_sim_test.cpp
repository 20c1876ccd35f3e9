// SPDX-License-Identifier: BSD-2-Clause
// Addresses behind neighbours that answer late or never.
#include <gtest/gtest.h>

#include "cm_programs.hpp"

namespace verbena::cm::sim {
namespace {

using enum RdmaEventType;

class NeighbourTest : public testing::Test {
 protected:
  NeighbourTest() {
    a.cm.open_channel(kChannel);
    a.cm.create_id(kChannel, 500, static_cast<std::uint16_t>(PortSpace::kTcp), 0, id);
    a.ports.neighbours_answer = false;
  }
  int resolve(TimeNs patience) {
    return a.cm.resolve_addr(kChannel, id, SocketAddress{}, inet(IpAddress::v4(0x0a000063), kPort),
                             world.now + patience);
  }
  void pass(TimeNs time) {
    const TimeNs end = world.now + time;
    while (world.step(end)) {
    }
    world.now = end;
  }

  World world{51, true};
  Host& a = world.add_host();
  IdHandle id = 0;
};

TEST_F(NeighbourTest, WhoNeverAnswersIsAnAddressError) {
  ASSERT_EQ(resolve(2 * kSecond), 0);
  pass(2 * kSecond - kMillisecond);
  EXPECT_FALSE(a.cm.get_event(kChannel));
  EXPECT_EQ(a.cm.resolve_route(kChannel, id), EINVAL);
  EXPECT_EQ(resolve(kSecond), EINVAL);
  RouteInfo route;
  ASSERT_EQ(a.cm.query(kChannel, id, route), 0);
  EXPECT_FALSE(route.has_path);
  pass(30 * kMillisecond);
  const auto event = a.cm.get_event(kChannel);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->type, kAddrError);
  EXPECT_EQ(event->status, -ETIMEDOUT);
  EXPECT_FALSE(a.cm.get_event(kChannel));
  EXPECT_FALSE(world.step()) << "nobody is asked any more";

  // The ID may be used again, as with a kernel.
  a.ports.neighbours_answer = true;
  ASSERT_EQ(resolve(kSecond), 0);
  EXPECT_EQ(a.cm.get_event(kChannel)->type, kAddrResolved);
}

TEST_F(NeighbourTest, WhoAnswersLateIsResolved) {
  ASSERT_EQ(resolve(2 * kSecond), 0);
  pass(kSecond);
  a.ports.neighbours_answer = true;
  pass(NeighbourQuestions::kLookMax);
  const auto event = a.cm.get_event(kChannel);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->type, kAddrResolved);
  EXPECT_EQ(a.cm.resolve_route(kChannel, id), 0);
  EXPECT_TRUE(a.cm.is_consistent());
}

TEST_F(NeighbourTest, ADestroyedIdAsksNoMore) {
  ASSERT_EQ(resolve(2 * kSecond), 0);
  pass(kSecond);
  std::uint32_t reported = 0;
  std::uint32_t withdrawn = 0;
  ASSERT_EQ(a.cm.destroy_id(world.now, kChannel, id, reported, withdrawn), 0);
  EXPECT_FALSE(world.step());
}

TEST_F(NeighbourTest, APortThatGoesDownWhileItWaitsIsNoDevice) {
  ASSERT_EQ(resolve(2 * kSecond), 0);
  a.ports.up = false;
  pass(30 * kMillisecond);
  const auto event = a.cm.get_event(kChannel);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->type, kAddrError);
  EXPECT_EQ(event->status, -ENODEV);
}

}  // namespace
}  // namespace verbena::cm::sim
