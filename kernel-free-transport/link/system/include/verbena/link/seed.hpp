// SPDX-License-Identifier: BSD-2-Clause
// Where chance comes from, outside of the engine: the kernel.
#pragma once

#include <cstdint>

namespace verbena::link {

// A seed that nobody can guess. Never waits; leaves errno alone.
std::uint64_t random_seed() noexcept;

}  // namespace verbena::link
