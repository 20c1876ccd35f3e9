// SPDX-License-Identifier: BSD-2-Clause
// Finds out whether there is an emulator and which devices it has. Each call asks anew over a
// connection that it closes at once. The process keeps no descriptor, no lock and no cache (except
// that an emulator is believed alive for 100 ms after it was seen), so fork and threads need no
// care. An emulator that is dead or does not answer in time has no devices.
//
// Call these functions inside a Section only.
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

// Returns the top of the shadow tree, or "" if the runtime directory is missing or not trusted.
std::string shadow_directory();

// Returns a bare connection on which nothing was sent, or -1 and errno. `own_name`, if not empty,
// becomes the socket's own abstract address (without the leading NUL).
control::UniqueFd connect_to_emulator(std::string_view own_name = {});

// The answer, for single look-ups, may be 100 ms out of date.
bool is_emulator_alive();

std::vector<control::DeviceInfo> list_devices();

// Returns whether this process has ever seen a device of ours. It then keeps numbers and names.
bool has_listed_devices();
void note_listed_devices();

// Makes the daemon write the device's counters into the shadow tree, and waits until it has.
void refresh_counters(const std::string& device);

// Returns the counters of the device's port.
NamedCounters list_counters(const std::string& device);

// Explains why the emulator refused a command of rdma_cm, or why a connection failed. Explains the
// first few times only, and only if explanations are wanted (`verbena run` asks for them).
bool explains_refused_commands();
void explain_refused_command(const control::Error& error);

// Explains, once, why the program finds no device: connect_to_emulator failed with this errno.
void explain_absence(int code);

// Explains, once, why a node that the process has seen cannot be opened. Keeps errno.
void explain_unreachable(const std::string& node);

// Returns the objects on a device, at most control::Resources::kMost of each kind.
control::Resources list_resources(const std::string& device, control::ResourcesOf of);

}  // namespace verbena::preload
