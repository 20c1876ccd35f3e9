// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/link/further_addresses.hpp"

#include <array>

#include "link_fixture.hpp"

namespace verbena::link::test {
namespace {

// Two further addresses of a port. The port's own address has number 0.
class FurtherAddressesTest : public ::testing::Test {
 protected:
  struct One {
    explicit One(std::uint32_t host)
        : group(open_group(own_address(host))), slot(group.add_slot().value()) {}
    std::unique_ptr<UdpLink> open(DropCounters& drops) const {
      return UdpLink::open(::dup(group.fd(slot)), group.local(), {}, drops).value();
    }
    SlotGroup group;
    SlotGroup::Slot slot;
  };

  void send_to(const One& one, std::uint32_t psn, std::uint8_t traffic_class = 0) {
    wire::Destination destination = to(one.group.local());
    destination.traffic_class = traffic_class;
    Batch batch;
    batch.add(make_packet(Qpn::from(one.slot, 1), psn, 64), destination);
    ASSERT_EQ(sender_.link->send(batch.get(), sender_.qp(1)), 1u);
  }
  // Receives everything that has arrived.
  std::size_t receive(FurtherAddresses& addresses) {
    std::size_t count = 0;
    while (const std::size_t n = addresses.receive(sink_, 64)) count += n;
    return count;
  }

  DropCounters drops_;
  One one_{0};
  One two_{1};
  SlotGroup from_ = open_group(own_address(2));
  Node sender_{from_, {.want_ip_fields = true}};
  Collector sink_;
};

TEST_F(FurtherAddressesTest, WithoutAnyThereIsNothingToWaitForOrToFind) {
  FurtherAddresses addresses;
  EXPECT_EQ(addresses.wait_fd(), -1);
  EXPECT_EQ(addresses.udp(1), nullptr);
  EXPECT_EQ(addresses.address(1), nullptr);
  addresses.adopt();
  EXPECT_EQ(receive(addresses), 0u);
}

TEST_F(FurtherAddressesTest, EachIsFoundByItsNumberAndNoOtherNumberFindsOne) {
  FurtherAddresses addresses;
  ASSERT_TRUE(addresses.add(1, one_.open(drops_)));
  ASSERT_TRUE(addresses.add(FurtherAddresses::kNumbersMax - 1, two_.open(drops_)));
  ASSERT_NE(addresses.address(1), nullptr);
  EXPECT_EQ(*addresses.address(1), own_address(0));
  EXPECT_EQ(*addresses.address(FurtherAddresses::kNumbersMax - 1), own_address(1));
  EXPECT_NE(addresses.udp(1), addresses.udp(FurtherAddresses::kNumbersMax - 1));
  for (const std::uint8_t never : std::array<std::uint8_t, 4>{0, 2, 16, 255}) {
    EXPECT_EQ(addresses.udp(never), nullptr) << int{never};
    EXPECT_EQ(addresses.address(never), nullptr) << int{never};
  }
}

TEST_F(FurtherAddressesTest, WhatComesIsReceivedOnceTheAddressIsAdopted) {
  FurtherAddresses addresses;
  ASSERT_TRUE(addresses.add(1, one_.open(drops_)));
  send_to(one_, 7);
  ASSERT_TRUE(wait_readable(addresses.wait_fd()));
  EXPECT_EQ(receive(addresses), 0u);
  addresses.adopt();
  EXPECT_EQ(receive(addresses), 1u);
  ASSERT_EQ(sink_.arrived.size(), 1u);
  EXPECT_EQ(sink_.arrived[0].psn(), 7u);
}

TEST_F(FurtherAddressesTest, OneDescriptorWaitsForAll) {
  FurtherAddresses addresses;
  ASSERT_TRUE(addresses.add(1, one_.open(drops_)));
  const int fd = addresses.wait_fd();
  ASSERT_TRUE(addresses.add(2, two_.open(drops_)));
  EXPECT_EQ(addresses.wait_fd(), fd);
  addresses.adopt();
  for (const One* to : {&one_, &two_}) {
    EXPECT_FALSE(wait_readable(fd, 0));
    send_to(*to, 1);
    EXPECT_TRUE(wait_readable(fd));
    EXPECT_EQ(receive(addresses), 1u);
  }
}

// Header fields are requested once, before or after an address is added.
TEST_F(FurtherAddressesTest, HeaderFieldsAreThoseOfLaterAddressesToo) {
  FurtherAddresses addresses;
  ASSERT_TRUE(addresses.add(1, one_.open(drops_)));
  addresses.adopt();
  addresses.want_header_fields();
  ASSERT_TRUE(addresses.add(2, two_.open(drops_)));
  addresses.adopt();
  for (const One* to : {&one_, &two_}) {
    send_to(*to, 1, 0x68);
    ASSERT_TRUE(wait_readable(addresses.wait_fd()));
    ASSERT_EQ(receive(addresses), 1u);
    EXPECT_EQ(sink_.arrived.back().fields.traffic_class, 0x68);
  }
}

}  // namespace
}  // namespace verbena::link::test
