// SPDX-License-Identifier: BSD-2-Clause
// One UDP port with many sockets: the kernel steers by destination QPN as promised, and none of the
// known ways to break that steering is open.
#include "verbena/link/slot_group.hpp"

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cerrno>
#include <string>
#include <vector>

#include "link_fixture.hpp"

namespace verbena::link::test {
namespace {

using ::testing::HasSubstr;

std::size_t waiting(SlotGroup& group, SlotGroup::Slot slot) { return group.drain(slot); }

void send_to_slot(const PlainSocket& from, const SlotGroup& group, std::uint32_t slot,
                  std::uint16_t port = kRoceUdpPort) {
  ASSERT_TRUE(from.send(make_packet(Qpn::from(slot, 5), 0, 16), group.local(), port));
}

TEST(SlotGroup, SteersEveryQueuePairToItsSlot) {
  SlotGroup group = open_group(own_address());
  const PlainSocket sender(own_address(1));
  constexpr std::uint32_t kSlots = 100;
  for (std::uint32_t i = 1; i < kSlots; ++i) ASSERT_EQ(group.add_slot().value(), i);
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    for (std::uint32_t n = 0; n <= i % 3; ++n) send_to_slot(sender, group, i);
  }
  for (std::uint32_t i = 0; i < kSlots; ++i) EXPECT_EQ(waiting(group, i), i % 3 + 1) << i;
}

TEST(SlotGroup, SteersOverIpv6) {
  const IpAddress loopback = IpAddress::parse("::1").value();
  SlotGroup group = open_group(loopback, own_port());
  const PlainSocket sender(loopback);
  for (std::uint32_t i = 1; i < 16; ++i) ASSERT_EQ(group.add_slot().value(), i);
  for (std::uint32_t i = 0; i < 16; ++i) send_to_slot(sender, group, i, own_port());
  for (std::uint32_t i = 0; i < 16; ++i) EXPECT_EQ(waiting(group, i), 1u) << i;
}

TEST(SlotGroup, UnknownSlotsAndTheMulticastQpGoToTheDaemon) {
  SlotGroup group = open_group(own_address());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(group.add_slot().ok());
  const PlainSocket sender(own_address(1));
  for (std::uint32_t slot = 6; slot < 206; ++slot) send_to_slot(sender, group, slot);
  ASSERT_TRUE(sender.send(make_packet(kMulticastQpn, 0, 16), group.local()));
  EXPECT_EQ(waiting(group, 0), 201u);
  for (std::uint32_t slot = 1; slot < 6; ++slot) EXPECT_EQ(waiting(group, slot), 0u);
}

TEST(SlotGroup, DatagramsTooShortForAQpnGoToTheDaemon) {
  SlotGroup group = open_group(own_address());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(group.add_slot().ok());
  const PlainSocket sender(own_address(1));
  const Bytes ones(8, 0x00);
  for (std::size_t length = 0; length < 8; ++length) {
    ASSERT_TRUE(sender.send(std::span(ones).first(length), group.local()));
  }
  EXPECT_EQ(waiting(group, 0), 8u);
}

TEST(SlotGroup, AFewSocketsMoreMoveNobody) {
  SlotGroup group = open_group(own_address());
  const PlainSocket sender(own_address(1));
  ASSERT_EQ(group.add_slot().value(), 1u);
  ASSERT_EQ(group.add_slot().value(), 2u);
  for (std::uint32_t next = 3; next < 20; ++next) {
    send_to_slot(sender, group, 1);
    send_to_slot(sender, group, 2);
    ASSERT_EQ(group.add_slot().value(), next);
    send_to_slot(sender, group, 1);
    send_to_slot(sender, group, 2);
    EXPECT_EQ(waiting(group, 1), 2u);
    EXPECT_EQ(waiting(group, 2), 2u);
  }
}

// The kernel would move the last socket into the place of a closed one.
TEST(SlotGroup, AContextThatDiesMovesNobody) {
  SlotGroup group = open_group(own_address());
  const PlainSocket sender(own_address(1));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(group.add_slot().ok());
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const int own = ::dup(group.fd(1));
    ::_exit(own >= 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const int given = ::dup(group.fd(2));
  ::close(given);
  for (std::uint32_t slot = 0; slot < 5; ++slot) send_to_slot(sender, group, slot);
  for (std::uint32_t slot = 0; slot < 5; ++slot) EXPECT_EQ(waiting(group, slot), 1u) << slot;
}

TEST(SlotGroup, AReleasedSlotIsDrainedAndGivenAgain) {
  SlotGroup group = open_group(own_address());
  const PlainSocket sender(own_address(1));
  ASSERT_EQ(group.add_slot().value(), 1u);
  ASSERT_EQ(group.add_slot().value(), 2u);
  send_to_slot(sender, group, 1);
  group.release(1);
  send_to_slot(sender, group, 1);  // from a peer that does not know yet
  ASSERT_EQ(group.add_slot().value(), 1u);
  EXPECT_FALSE(wait_readable(group.fd(1), 0));
  EXPECT_EQ(group.sockets(), 3u);
}

TEST(SlotGroup, ExtraSlotsLeadToTheirOwner) {
  SlotGroup group = open_group(own_address());
  const PlainSocket sender(own_address(1));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(group.add_slot().ok());
  const auto first = group.add_extra_slot(2).value();
  const auto second = group.add_extra_slot(3).value();
  const auto third = group.add_extra_slot(2).value();
  for (const auto slot : {first, second, third, third}) send_to_slot(sender, group, slot);
  EXPECT_EQ(waiting(group, 2), 3u);
  EXPECT_EQ(waiting(group, 3), 1u);
  EXPECT_EQ(waiting(group, 0), 0u);

  group.release(2);
  for (const auto slot : {first, second, third}) send_to_slot(sender, group, slot);
  EXPECT_EQ(waiting(group, 0), 2u);
  EXPECT_EQ(waiting(group, 2), 0u);
  EXPECT_EQ(waiting(group, 3), 1u);
}

TEST(SlotGroup, GivesEverySlotNumberButTheMulticastOne) {
  SlotGroup group = open_group(own_address());
  ASSERT_EQ(group.add_slot().value(), 1u);
  SlotGroup::Slot last = 0;
  for (std::uint32_t expected = SlotGroup::kMulticastSlot - 1; expected > 1; --expected) {
    auto extra = group.add_extra_slot(1);
    ASSERT_TRUE(extra.ok()) << extra.error().text;
    ASSERT_EQ(*extra, expected);
    last = *extra;
  }
  const PlainSocket sender(own_address(1));
  send_to_slot(sender, group, last);
  send_to_slot(sender, group, SlotGroup::kMulticastSlot - 1);
  EXPECT_EQ(waiting(group, 1), 2u);
  for (const auto& refused : {group.add_extra_slot(1), group.add_slot()}) {
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().error, ENOSPC);
    EXPECT_THAT(refused.error().text, HasSubstr("slots"));
  }
}

// Sockets are never closed. Once there is one for each number, extra slots are released ones.
TEST(SlotGroup, GivesReleasedSlotsAsExtraOnes) {
  SlotGroup group = open_group(own_address());
  constexpr std::uint32_t kAll = SlotGroup::kMulticastSlot;
  for (std::uint32_t slot = 1; slot < kAll; ++slot) ASSERT_EQ(group.add_slot().value(), slot);
  EXPECT_FALSE(group.add_extra_slot(1).ok());
  for (std::uint32_t slot = 3; slot < kAll; ++slot) group.release(slot);
  const PlainSocket sender(own_address(1));
  std::vector<SlotGroup::Slot> of_second;
  for (std::uint32_t slot = 3; slot < kAll; ++slot) {
    const auto extra = group.add_extra_slot(slot % 2 + 1);
    ASSERT_TRUE(extra.ok()) << extra.error().text;
    if (slot % 2 == 1) of_second.push_back(*extra);
    if (slot % 100 < 2) send_to_slot(sender, group, *extra);
  }
  EXPECT_FALSE(group.add_extra_slot(1).ok());
  EXPECT_FALSE(group.add_slot().ok());
  send_to_slot(sender, group, 1);
  EXPECT_EQ(waiting(group, 1), 11u);
  EXPECT_EQ(waiting(group, 2), 10u);
  EXPECT_EQ(waiting(group, 0), 0u);

  group.release(2);
  const auto again = group.add_slot();
  ASSERT_TRUE(again.ok()) << again.error().text;
  send_to_slot(sender, group, *again);
  EXPECT_EQ(waiting(group, *again), 1u);
  for (const SlotGroup::Slot extra : of_second) {
    send_to_slot(sender, group, extra);
    EXPECT_EQ(waiting(group, extra), 1u) << extra;
  }
}

TEST(SlotGroup, SaysWhoHasThePort) {
  const PlainSocket other(own_address(), kRoceUdpPort);
  ASSERT_TRUE(other.bound());
  const auto refused = SlotGroup::open(own_address());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().error, EADDRINUSE);
  EXPECT_THAT(refused.error().text, HasSubstr("UDP port 4791 of " + own_address().to_string()));
  EXPECT_THAT(refused.error().text,
              HasSubstr("taken by a program of user " + std::to_string(::getuid())));
}

// Two groups of one user would share the kernel's list of sockets, and every index would be wrong.
TEST(SlotGroup, ASecondGroupOnTheAddressIsRefused) {
  SlotGroup group = open_group(own_address());
  ASSERT_TRUE(group.add_slot().ok());
  const auto refused = SlotGroup::open(own_address());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().error, EADDRINUSE);
}

TEST(SlotGroup, SaysThatAnAddressIsNotOfThisHost) {
  const auto refused = SlotGroup::open(IpAddress::parse("203.0.113.77").value());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().error, EADDRNOTAVAIL);
  EXPECT_THAT(refused.error().text, HasSubstr("203.0.113.77 is not an address of this host"));
}

}  // namespace
}  // namespace verbena::link::test
