// SPDX-License-Identifier: BSD-2-Clause
// Memory of the program that a command points to, read and written so that a wrong pointer is
// EFAULT, as in a system call. Any thread, inside a Section.
#pragma once

#include <cstdint>
#include <span>

namespace verbena::preload {

bool copy_in(std::span<std::uint8_t> to, std::uint64_t address);
bool copy_out(std::uint64_t address, std::span<const std::uint8_t> from);

}  // namespace verbena::preload
