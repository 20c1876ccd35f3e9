// SPDX-License-Identifier: BSD-2-Clause
// Decides which devices an emulator has, from the user's settings. Pure: no socket, no file.
//
// Each --roce address makes a RoCE device. RoCE devices get the given names first, in order; each
// name that is left makes an InfiniBand device. Without any setting there is one InfiniBand device.
// Devices without a given name are called verbena0, verbena1, ...
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
  std::string name;     // the host's name, for node descriptions
  std::string version;  // the product's version, shown as firmware version
  std::vector<Interface> interfaces;
  // A different number at each start of an emulator, 24 bits. libibverbs identifies a device by its
  // index, and would take a device with the same index for one that it has seen.
  std::uint32_t start = 0;
};

control::Outcome<std::vector<control::DeviceInfo>> plan_devices(const settings::Settings& settings,
                                                                const Host& host);

// Updates what depends on the current interfaces: GIDs of RoCE ports, MTUs.
void follow_interfaces(std::vector<control::DeviceInfo>& devices,
                       const std::vector<Interface>& interfaces);

}  // namespace verbena::fabric
