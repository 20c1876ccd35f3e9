// SPDX-License-Identifier: BSD-2-Clause
// Reads and writes the program's memory that a command points to. A wrong pointer gives EFAULT, as
// in a system call. Any thread may call this, inside a Section.
#pragma once

#include <cstdint>
#include <span>

namespace verbena::preload {

bool copy_in(std::span<std::uint8_t> to, std::uint64_t address);
bool copy_out(std::uint64_t address, std::span<const std::uint8_t> from);

}  // namespace verbena::preload
