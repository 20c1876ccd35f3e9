// SPDX-License-Identifier: BSD-2-Clause
// Tells the plugin what the program does to its address space. The plugin must know when registered
// memory goes away or something else takes its place (control/memory_guard.hpp). What the C library
// does for itself (free() of a large block, the stack of a thread that ended, dlclose()) is not
// seen. But if a new mapping lies where registered memory lay, that memory was unmapped.
#pragma once

#include <cstddef>

#include "verbena/control/memory_guard.hpp"

namespace verbena::preload::mappings {

void watch(const control::MemoryGuard* guard) noexcept;
bool are_watched() noexcept;

// Reports that `by` this call whatever was mapped in the range is gone. Keeps errno.
void note_gone(const void* address, std::size_t length, const char* by) noexcept;
// Returns the length of the mapping that begins at `address`, or 0 if none begins there.
std::size_t length_of(const void* address) noexcept;

}  // namespace verbena::preload::mappings
