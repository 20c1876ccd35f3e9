// SPDX-License-Identifier: BSD-2-Clause
// One host of a simulated network with its rdma_cm and two channels, and calls with the arguments
// that most tests use.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <span>

#include "../../sim/cm/cm_programs.hpp"
#include "verbena/cm/rdma_cm.hpp"

namespace verbena::cm {

inline constexpr std::uint16_t kTcp = 0x106;
inline constexpr std::uint16_t kUdp = 0x111;
inline constexpr std::uint16_t kIb = 0x13f;

class RdmaCmTest : public testing::Test {
 protected:
  RdmaCmTest() : host(world.add_host()), cm(host.cm) {
    cm.open_channel(1);
    cm.open_channel(2);
  }
  IdHandle make(std::uint16_t space = kTcp, ChannelId channel = 1) {
    IdHandle id = 0;
    EXPECT_EQ(cm.create_id(channel, 77, space, 0, id), 0);
    return id;
  }
  int bind(IdHandle id, const char* address, std::uint16_t port) {
    return cm.bind(1, id, sim::inet(*IpAddress::parse(address), port));
  }
  int destroy(IdHandle id, ChannelId channel = 1) {
    std::uint32_t withdrawn = 0;
    return cm.destroy_id(world.now, channel, id, reported, withdrawn);
  }
  int set_option(IdHandle id, std::uint32_t name, std::int32_t value, std::size_t size = 4) {
    std::uint8_t bytes[4];
    std::memcpy(bytes, &value, 4);
    return cm.set_option(1, id, 0, name, std::span(bytes).first(size));
  }

  sim::World world{1};
  sim::Host& host;
  RdmaCm& cm;
  std::uint32_t reported = 0;
};

}  // namespace verbena::cm
