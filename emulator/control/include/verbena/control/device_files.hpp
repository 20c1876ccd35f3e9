// SPDX-License-Identifier: BSD-2-Clause
// The interface by which the preload library reads the sysfs files of an open device where it
// cannot reach the emulator's directory: after the program has called chroot() or setuid(). The
// plugin, which knows the device, offers a function; it finds the library's function by name.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace verbena::control {

// Writes the content of a file below /sys/class/infiniband/NAME to `room`. `device` is NAME, or the
// name of the device's node (uverbs192). `file` is relative, for example "ports/1/pkeys/0". Returns
// the size; -ENODEV if this process has no such device open; -ENOENT if the plugin does not know
// the file. Keeps errno.
using DeviceFile = ssize_t(const char* device, const char* file, char* room, std::size_t size);

// Makes the library use the function, in this process, from now on.
using OfferDeviceFiles = void(DeviceFile* content);
inline constexpr const char* kOfferDeviceFiles = "verbena_offer_device_files";

}  // namespace verbena::control
