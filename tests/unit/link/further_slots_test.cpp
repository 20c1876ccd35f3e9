// SPDX-License-Identifier: BSD-2-Clause
// A further address of a port: a context that asked for a socket gets the packets for its queue
// pairs, and the daemon gets all others.
#include "verbena/link/further_slots.hpp"

#include <gmock/gmock.h>

#include <array>
#include <cerrno>

#include "link_fixture.hpp"

namespace verbena::link::test {
namespace {

FurtherSlots open_further(const IpAddress& local, std::uint16_t port = kRoceUdpPort) {
  auto group = FurtherSlots::open(local, {.port = port});
  EXPECT_TRUE(group.ok()) << (group.ok() ? "" : group.error().text);
  return std::move(group).value();
}

std::size_t waiting(int fd) {
  std::size_t count = 0;
  char nothing = 0;
  while (::recv(fd, &nothing, 0, MSG_DONTWAIT | MSG_TRUNC) >= 0) ++count;
  return count;
}

void send_to_slot(const PlainSocket& from, const FurtherSlots& group, std::uint32_t slot,
                  std::uint16_t port = kRoceUdpPort) {
  ASSERT_TRUE(from.send(make_packet(Qpn::from(slot, 5), 0, 16), group.local(), port));
}

TEST(FurtherSlots, SteersTheSlotsThatAskedAndLeavesTheRestToTheDaemon) {
  FurtherSlots group = open_further(own_address());
  const PlainSocket sender(own_address(1));
  const std::array<FurtherSlots::Slot, 2> extra{1022, 1021};
  const int seven = group.socket_for(7, {}).value();
  const int three = group.socket_for(3, extra).value();
  EXPECT_EQ(group.socket_for(7, {}).value(), seven);
  for (const std::uint32_t slot : {0u, 1u, 3u, 7u, 900u, 1021u, 1022u, 1023u}) {
    send_to_slot(sender, group, slot);
  }
  EXPECT_EQ(waiting(seven), 1u);
  EXPECT_EQ(waiting(three), 3u);
  EXPECT_EQ(waiting(group.own_fd()), 4u);
  ASSERT_TRUE(group.add_extra(7, 1020).ok());
  ASSERT_TRUE(group.add_extra(8, 1019).ok());  // has no socket here
  send_to_slot(sender, group, 1020);
  send_to_slot(sender, group, 1019);
  EXPECT_EQ(waiting(seven), 1u);
  EXPECT_EQ(waiting(group.own_fd()), 1u);
}

TEST(FurtherSlots, ASocketIsDrainedAndUsedAgain) {
  FurtherSlots group = open_further(own_address());
  const PlainSocket sender(own_address(1));
  const int first = group.socket_for(5, {}).value();
  const int second = group.socket_for(6, {}).value();
  send_to_slot(sender, group, 5);
  group.release(5);
  group.release(9);  // slot 9 never had a socket
  send_to_slot(sender, group, 5);
  EXPECT_EQ(waiting(group.own_fd()), 1u);
  EXPECT_EQ(group.socket_for(12, {}).value(), first);
  EXPECT_EQ(waiting(first), 0u);
  send_to_slot(sender, group, 12);
  send_to_slot(sender, group, 6);
  EXPECT_EQ(waiting(first), 1u);
  EXPECT_EQ(waiting(second), 1u);
}

TEST(FurtherSlots, EverySlotMayAsk) {
  FurtherSlots group = open_further(own_address());
  const PlainSocket sender(own_address(1));
  std::vector<int> fds;
  for (std::uint32_t slot = 1; slot < 200; ++slot)
    fds.push_back(group.socket_for(slot, {}).value());
  for (std::uint32_t slot = 1; slot < 200; ++slot) send_to_slot(sender, group, slot);
  for (const int fd : fds) EXPECT_EQ(waiting(fd), 1u);
}

TEST(FurtherSlots, OverIpv6) {
  const IpAddress loopback = IpAddress::parse("::1").value();
  FurtherSlots group = open_further(loopback, own_port());
  const PlainSocket sender(loopback);
  const int nine = group.socket_for(9, {}).value();
  send_to_slot(sender, group, 9, own_port());
  send_to_slot(sender, group, 1, own_port());
  EXPECT_EQ(waiting(nine), 1u);
  EXPECT_EQ(waiting(group.own_fd()), 1u);
}

TEST(FurtherSlots, WhomTheRuleForbidsNobodyHears) {
  const PlainSocket own(own_address(1));
  const PlainSocket stranger(own_address(1), static_cast<std::uint16_t>(own.port() ^ 8));
  ASSERT_TRUE(stranger.bound());
  const auto first =
      static_cast<std::uint16_t>(own.port() / SourcePorts::kCount * SourcePorts::kCount);
  auto group = FurtherSlots::open(own_address(), {.senders = {first, false}});
  ASSERT_TRUE(group.ok()) << group.error().text;
  for (const std::uint32_t slot : {0u, 7u}) {
    const int socket = slot == 0 ? group->own_fd() : group->socket_for(slot, {}).value();
    send_to_slot(stranger, *group, slot);
    EXPECT_EQ(waiting(socket) + waiting(group->own_fd()), 0u) << slot;
    send_to_slot(own, *group, slot);
    EXPECT_EQ(waiting(socket), 1u) << slot;
  }
}

TEST(FurtherSlots, AnAddressThatAnotherHasIsRefused) {
  FurtherSlots group = open_further(own_address());
  const auto again = FurtherSlots::open(own_address());
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().error, EADDRINUSE);
  EXPECT_THAT(again.error().text, ::testing::HasSubstr("is taken by"));
}

}  // namespace
}  // namespace verbena::link::test
