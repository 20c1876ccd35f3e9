// SPDX-License-Identifier: BSD-2-Clause
// Checks whether each byte of memory that a program wants to register can be accessed. Any thread.
#pragma once

#include <cstdint>

namespace verbena::provider {

// Checks [begin, end) of this process, which must be whole pages. Keeps errno.
bool is_mapped_range(std::uint64_t begin, std::uint64_t end, bool writable) noexcept;

}  // namespace verbena::provider
