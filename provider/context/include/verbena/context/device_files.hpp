// SPDX-License-Identifier: BSD-2-Clause
// The sysfs files from which libibverbs reads GIDs and P_Keys, as the contexts of this process know
// them (control/device_files.hpp). Any thread.
#pragma once

namespace verbena::provider {

// Tells the preload library that it can ask. Called when a device is opened.
void offer_device_files() noexcept;

}  // namespace verbena::provider
