// SPDX-License-Identifier: BSD-2-Clause
// The ports that an emulator's devices send from. A packet from another port does not pass for
// theirs, neither from a socket with the device's own address nor with a false source address.
#include "verbena/link/source_ports.hpp"

#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "link_fixture.hpp"

namespace verbena::link::test {
namespace {

SourcePorts reserve() {
  auto ports = SourcePorts::reserve();
  EXPECT_TRUE(ports.ok()) << (ports.ok() ? "" : ports.error().text);
  return std::move(ports).value();
}

int bind_to(const IpAddress& address, std::uint16_t port, int option = 0) {
  const int fd = ::socket(address.is_v4() ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  if (option != 0) ::setsockopt(fd, SOL_SOCKET, option, &on, sizeof on);
  int result = 0;
  if (address.is_v4()) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(address.v4_host_order());
    result = ::bind(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  } else {
    sockaddr_in6 to{};
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(port);
    std::memcpy(&to.sin6_addr, address.bytes.data(), address.bytes.size());
    result = ::bind(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }
  const int error = result == 0 ? 0 : errno;
  ::close(fd);
  return error;
}

TEST(SourcePorts, AreAlignedAndHigh) {
  const SourcePorts ports = reserve();
  EXPECT_EQ(ports.first() % SourcePorts::kCount, 0);
  EXPECT_GE(ports.first(), SourcePorts::kLowest);
}

TEST(SourcePorts, NobodyGetsOneOnAnyAddress) {
  const SourcePorts ports = reserve();
  for (std::uint16_t n = 0; n < SourcePorts::kCount; ++n) {
    const auto port = static_cast<std::uint16_t>(ports.first() + n);
    for (const IpAddress& address : {own_address(), own_address(3), *IpAddress::parse("::1")}) {
      EXPECT_EQ(bind_to(address, port), EADDRINUSE) << address.to_string();
      EXPECT_EQ(bind_to(address, port, SO_REUSEADDR), EADDRINUSE) << address.to_string();
    }
    // A socket of the same user may share the port. The devices' sockets are opened in this way.
    EXPECT_EQ(bind_to(own_address(), port, SO_REUSEPORT), 0);
  }
}

TEST(SourcePorts, EachEmulatorHasItsOwn) {
  const SourcePorts first = reserve();
  const SourcePorts second = reserve();
  EXPECT_NE(first.first(), second.first());
}

TEST(SourcePorts, AreFreeAgainAtItsEnd) {
  std::uint16_t port = 0;
  {
    const SourcePorts ports = reserve();
    port = ports.first();
  }
  EXPECT_EQ(bind_to(own_address(), port), 0);
}

// A device's sockets, and which sockets may send to them.
class SenderRuleTest : public ::testing::Test {
 protected:
  void open(bool has_foreign_peers, const IpAddress& local = own_address(),
            std::uint16_t port = kRoceUdpPort) {
    auto group =
        SlotGroup::open(local, {.port = port, .senders = {ports_.first(), has_foreign_peers}});
    ASSERT_TRUE(group.ok()) << group.error().text;
    group_.emplace(std::move(*group));
    port_ = port;
  }
  UdpOptions options() const {
    UdpOptions options = kRoce;
    options.port = port_;
    options.first_source_port = ports_.first();
    return options;
  }
  // Sends as the emulator's devices do.
  void send_as_own(const IpAddress& from, std::uint32_t slot) {
    auto sender_group = SlotGroup::open(from, {.port = static_cast<std::uint16_t>(port_ + 1)});
    ASSERT_TRUE(sender_group.ok());
    DropCounters drops;
    auto link = UdpLink::open(::dup(sender_group->fd(0)), from, options(), drops);
    ASSERT_TRUE(link.ok()) << link.error().text;
    Batch batch;
    batch.add(packet_to(slot), to(group_->local()));
    EXPECT_EQ((*link)->send(batch.get(), Qpn::from(1, 1)), 1u);
  }
  void send_as_stranger(const IpAddress& from, std::uint32_t slot) {
    const PlainSocket socket(from);
    ASSERT_TRUE(socket.send(packet_to(slot), group_->local(), port_));
  }
  // Sends from a socket with another address, and claims to be `source`.
  void send_with_false_source(const IpAddress& source, std::uint32_t slot, bool with_options) {
    const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (with_options) {
      const std::uint8_t nothing[4] = {1, 1, 1, 0};
      ASSERT_EQ(::setsockopt(fd, IPPROTO_IP, IP_OPTIONS, nothing, sizeof nothing), 0);
    }
    sockaddr_in target{};
    target.sin_family = AF_INET;
    target.sin_port = htons(port_);
    target.sin_addr.s_addr = htonl(group_->local().v4_host_order());
    Bytes packet = packet_to(slot);
    iovec part{packet.data(), packet.size()};
    alignas(cmsghdr) std::uint8_t control[CMSG_SPACE(sizeof(in_pktinfo))] = {};
    msghdr message{};
    message.msg_name = &target;
    message.msg_namelen = sizeof target;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = IPPROTO_IP;
    header->cmsg_type = IP_PKTINFO;
    header->cmsg_len = CMSG_LEN(sizeof(in_pktinfo));
    in_pktinfo info{};
    info.ipi_spec_dst.s_addr = htonl(source.v4_host_order());
    std::memcpy(CMSG_DATA(header), &info, sizeof info);
    EXPECT_EQ(::sendmsg(fd, &message, 0), static_cast<ssize_t>(packet.size()));
    ::close(fd);
  }
  static Bytes packet_to(std::uint32_t slot) { return make_packet(Qpn::from(slot, 5), 0, 16); }
  std::size_t waiting(SlotGroup::Slot slot) { return group_->drain(slot); }

  SourcePorts ports_ = reserve();
  std::optional<SlotGroup> group_;
  std::uint16_t port_ = 0;
};

TEST_F(SenderRuleTest, WithoutForeignPeersOnlyOurPortsAreHeard) {
  open(false);
  for (const std::uint32_t slot : {0u, 1u}) {
    send_as_stranger(own_address(1), slot);
    send_as_stranger(own_address(), slot);
    send_with_false_source(own_address(), slot, false);
    send_with_false_source(own_address(), slot, true);
    EXPECT_EQ(waiting(0), 0u) << slot;
    if (slot != 0) {
      EXPECT_EQ(waiting(slot), 0u);
    }
    send_as_own(own_address(1), slot);
    EXPECT_EQ(waiting(slot), 1u);
    // The next round has a slot of a context beside the daemon's.
    if (slot == 0) {
      ASSERT_EQ(group_->add_slot().value(), 1u);
    }
  }
}

TEST_F(SenderRuleTest, WithForeignPeersNobodySendsAsTheDeviceItself) {
  open(true);
  ASSERT_EQ(group_->add_slot().value(), 1u);
  for (const std::uint32_t slot : {0u, 1u}) {
    send_as_stranger(own_address(), slot);
    send_with_false_source(own_address(), slot, false);
    send_with_false_source(own_address(), slot, true);
    EXPECT_EQ(waiting(0) + waiting(1), 0u) << slot;
    send_as_own(own_address(), slot);
    send_as_stranger(own_address(1), slot);
    send_with_false_source(own_address(1), slot, true);
    EXPECT_EQ(waiting(slot), 3u);
  }
}

TEST_F(SenderRuleTest, HoldsForIpv6) {
  const IpAddress loopback = IpAddress::parse("::1").value();
  for (const bool has_foreign_peers : {false, true}) {
    open(has_foreign_peers, loopback, own_port());
    ASSERT_EQ(group_->add_slot().value(), 1u);
    for (const std::uint32_t slot : {0u, 1u}) {
      send_as_stranger(loopback, slot);
      EXPECT_EQ(waiting(0) + waiting(1), 0u) << slot;
      send_as_own(loopback, slot);
      EXPECT_EQ(waiting(slot), 1u) << slot;
    }
    group_.reset();
  }
}

TEST_F(SenderRuleTest, ExtraSlotsAreSteeredAsBefore) {
  open(false);
  ASSERT_EQ(group_->add_slot().value(), 1u);
  const auto extra = group_->add_extra_slot(1).value();
  send_as_stranger(own_address(1), extra);
  EXPECT_EQ(waiting(0) + waiting(1), 0u);
  send_as_own(own_address(1), extra);
  EXPECT_EQ(waiting(1), 1u);
}

}  // namespace
}  // namespace verbena::link::test
