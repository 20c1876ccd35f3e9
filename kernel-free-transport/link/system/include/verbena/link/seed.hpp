// SPDX-License-Identifier: BSD-2-Clause
// Random numbers for all rooms outside of the engine: they come from the kernel.
#pragma once

#include <cstdint>

namespace verbena::link {

// Returns a seed that no one can guess. Never waits; leaves errno alone.
std::uint64_t random_seed() noexcept;

}  // namespace verbena::link
