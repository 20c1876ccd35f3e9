// SPDX-License-Identifier: BSD-2-Clause
// Reads of completion channels, which the plugin makes in the kernel's place.
#pragma once

#include <sys/types.h>

#include "real/export.hpp"

namespace verbena::preload::channel_reads {

// Does what read(2) does, for a descriptor that was noted as a channel.
VERBENA_NOTHING_TO_CLEAN_UP ssize_t read(int fd, void* bytes, size_t size);

}  // namespace verbena::preload::channel_reads
