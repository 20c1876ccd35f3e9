// SPDX-License-Identifier: BSD-2-Clause
// Stands in the include path before the link's own header, whose functions bypass the C library.
// Declares those that provider/progress uses.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace verbena::link {

ssize_t write_bytes(int fd, const void* bytes, std::size_t size) noexcept;

}  // namespace verbena::link
