// SPDX-License-Identifier: BSD-2-Clause
// Keeps a program from being killed by its own memory: memory that was registered and then
// unmapped, protected or cut off is accessed by instructions that may fault (base/guarded.hpp), and
// the preload library tells us of SIGSEGV and SIGBUS first (control/memory_guard.hpp).
#pragma once

namespace verbena::provider {

// Called when a device is opened, also in a forked child.
void guard_memory() noexcept;

}  // namespace verbena::provider
