// SPDX-License-Identifier: BSD-2-Clause
// The sysfs files of a device that the process has open, where the emulator's directory is out of
// reach because the program has changed its root directory or its user. An adapter's queries need
// only the open device, or files that every user can read. No directory is kept open for this,
// because a program could leave its root directory by it: the plugin knows the content.
//
// Any thread may call these functions, inside a Section.
#pragma once

#include <optional>
#include <string>

namespace verbena::preload {

// Returns the content of a file (control::DeviceFile), or nothing if the plugin does not know it.
std::optional<std::string> device_file(const std::string& device, const std::string& file);

// Opens such a file by its absolute path, to be read. Returns a descriptor, which is the program's,
// or -1 if the path names no such file.
int open_device_file(const char* path, int flags);

}  // namespace verbena::preload
