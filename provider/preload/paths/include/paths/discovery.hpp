// SPDX-License-Identifier: BSD-2-Clause
// Is there an emulator, and which devices has it? Asked anew each time over a connection of its
// own that is closed at once: the process keeps no descriptor, no lock and no cache (but for the
// 100 ms in which an emulator seen alive is believed to be), so fork and threads need no care. An
// emulator that is dead or does not answer in time has no devices.
//
// Called inside a Section only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "verbena/control/device_info.hpp"
#include "verbena/control/error.hpp"
#include "verbena/control/messages.hpp"
#include "verbena/control/status_messages.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/preload/nldev.hpp"

namespace verbena::preload {

// The shadow tree's top, or empty when the runtime directory is not there or not to be trusted.
std::string shadow_directory();

// A bare connection; nothing sent. `own_name`, if not empty, becomes the socket's own abstract
// address (without the leading NUL). -1 and errno on failure.
control::UniqueFd connect_to_emulator(std::string_view own_name = {});

// For single look-ups; may be 100 ms out of date.
bool is_emulator_alive();

std::vector<control::DeviceInfo> list_devices();

// Whether this process was ever shown a device of ours: it then holds on to numbers and names.
bool has_listed_devices();
void note_listed_devices();

// The daemon writes the device's counters into the shadow tree before this returns.
void refresh_counters(const std::string& device);

// What the port of a device has counted.
NamedCounters list_counters(const std::string& device);

// Why the emulator refused a command of rdma_cm, or a connection did not come about: the first few,
// where explanations are wanted (`verbena run` does).
bool explains_refused_commands();
void explain_refused_command(const control::Error& error);

// What there is on a device; objects up to control::Resources::kMost of each kind.
control::Resources list_resources(const std::string& device, control::ResourcesOf of);

}  // namespace verbena::preload
