// SPDX-License-Identifier: BSD-2-Clause
// Writes a device as the kernel does in sysfs. Pure functions from a value to file names and texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "verbena/control/device_info.hpp"
#include "verbena/fabric/totals.hpp"

namespace verbena::fabric {

using NamedTexts = std::vector<std::pair<std::string, std::string>>;

// Returns "0x", `digits` hexadecimal digits, and a newline.
std::string hex_text(std::uint64_t value, int digits);
// Returns text like 0256:5200:7f01:0001.
std::string guid_text(std::uint64_t guid);
std::string gid_type_text(control::GidType type);

// Returns the files under class/infiniband/NAME, except the port's.
NamedTexts device_attributes(const control::DeviceInfo& device);
// Returns the files directly under ports/1.
NamedTexts port_attributes(const control::DeviceInfo& device);
// Returns "gids/..." and "gid_attrs/types/..." of one row.
NamedTexts gid_attributes(const control::DeviceInfo& device, std::size_t row);
// Returns "counters/..." and "hw_counters/...".
std::vector<std::pair<std::string, std::uint64_t>> counter_files(const Totals& totals);

}  // namespace verbena::fabric
