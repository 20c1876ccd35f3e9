// SPDX-License-Identifier: BSD-2-Clause
// A program's own memory never kills it: what it has registered and then unmapped, protected or cut
// off is touched by instructions that may fault (base/guarded.hpp), and the preload library lets us
// hear of SIGSEGV and SIGBUS first (control/memory_guard.hpp).
#pragma once

namespace verbena::provider {

// Where a device is opened; again in a forked child.
void guard_memory() noexcept;

}  // namespace verbena::provider
