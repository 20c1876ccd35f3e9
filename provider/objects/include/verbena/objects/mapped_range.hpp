// SPDX-License-Identifier: BSD-2-Clause
// Whether memory that a program wants to register can be touched, each byte of it. Any thread.
#pragma once

#include <cstdint>

namespace verbena::provider {

// [begin, end) of this process, whole pages. Keeps errno.
bool is_mapped_range(std::uint64_t begin, std::uint64_t end, bool writable) noexcept;

}  // namespace verbena::provider
