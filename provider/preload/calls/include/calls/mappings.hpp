// SPDX-License-Identifier: BSD-2-Clause
// What a program does to its address space, for the plugin, which must know when memory that is
// registered goes away, or something else comes in its place (control/memory_guard.hpp). What the C
// library does for itself (free() of a large block, the stack of a thread that ended, dlclose())
// is not seen; but where a mapping that is new lies where registered memory lay, that was unmapped.
#pragma once

#include <cstddef>

#include "verbena/control/memory_guard.hpp"

namespace verbena::preload::mappings {

void watch(const control::MemoryGuard* guard) noexcept;
bool are_watched() noexcept;

// What was there, if anything was, is there no more: `by` this call. Keeps errno.
void note_gone(const void* address, std::size_t length, const char* by) noexcept;
// How long the mapping is that begins here; 0: none does.
std::size_t length_of(const void* address) noexcept;

}  // namespace verbena::preload::mappings
