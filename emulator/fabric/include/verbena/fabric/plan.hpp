// SPDX-License-Identifier: BSD-2-Clause
// Which devices an emulator has, from what the user asked for. Pure: no socket, no file.
//
// Each --roce address makes a RoCE device; names go to them first, in order, and each name left
// over makes an InfiniBand device. Nothing asked: one InfiniBand device. Unnamed ones are called
// verbena0, verbena1, ...
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "verbena/control/device_info.hpp"
#include "verbena/control/error.hpp"
#include "verbena/fabric/interfaces.hpp"
#include "verbena/settings/settings.hpp"

namespace verbena::fabric {

inline constexpr std::size_t kMaxDevices = 64;

struct Host {
  std::uint32_t uid = 0;
  std::string name;     // of the host, for node descriptions
  std::string version;  // of the product, as firmware version
  std::vector<Interface> interfaces;
  // Another one each time that an emulator starts, in 24 bits: libibverbs knows a device by its
  // index, and takes one with the same index for the device that it has seen.
  std::uint32_t start = 0;
};

control::Outcome<std::vector<control::DeviceInfo>> plan_devices(const settings::Settings& settings,
                                                                const Host& host);

// What follows from the interfaces as they are now: GIDs of RoCE ports, MTUs.
void follow_interfaces(std::vector<control::DeviceInfo>& devices,
                       const std::vector<Interface>& interfaces);

}  // namespace verbena::fabric
