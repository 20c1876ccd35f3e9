// SPDX-License-Identifier: BSD-2-Clause
// Tests which port space an AF_IB address names, for IDs of each port space.
#include "verbena/cm/port_space.hpp"

#include <gtest/gtest.h>

namespace verbena::cm {
namespace {

constexpr std::uint64_t kWholeSpace = 0xffffffffffff0000;

std::optional<PortSpace> named(std::uint64_t service_id, std::uint64_t mask, PortSpace own) {
  SocketAddress address;
  address.family = Family::kIb;
  address.service_id = service_id;
  address.service_mask = mask;
  return space_named_by(address, own);
}

TEST(PortSpaceTest, AServiceIdNamesASpaceWithoutRegardToThePort) {
  for (const PortSpace space : {PortSpace::kTcp, PortSpace::kUdp, PortSpace::kIb}) {
    EXPECT_EQ(named(service_id_of(space, 4711), kWholeSpace, PortSpace::kIb), space);
  }
  EXPECT_EQ(named(service_id_of(PortSpace::kTcp, 4711), ~0ull, PortSpace::kIb), PortSpace::kTcp);
  EXPECT_EQ(named(service_id_of(PortSpace::kIpoib, 0), kWholeSpace, PortSpace::kIb), std::nullopt);
  EXPECT_EQ(named(0x7777770000, kWholeSpace, PortSpace::kIb), std::nullopt);
}

TEST(PortSpaceTest, OnlyAnIbIdMayUseTheOthers) {
  const std::uint64_t tcp = service_id_of(PortSpace::kTcp, 1);
  EXPECT_EQ(named(tcp, kWholeSpace, PortSpace::kTcp), PortSpace::kTcp);
  EXPECT_EQ(named(tcp, kWholeSpace, PortSpace::kUdp), std::nullopt);
}

TEST(PortSpaceTest, WithoutAMaskItIsTheFirstThatMayBeUsed) {
  EXPECT_EQ(named(0x7777770000, 0, PortSpace::kIb), PortSpace::kIb);
  EXPECT_EQ(named(0x7777770000, 0xffff, PortSpace::kUdp), PortSpace::kUdp);
}

}  // namespace
}  // namespace verbena::cm
