// SPDX-License-Identifier: BSD-2-Clause
// Moves a CRC-32 over zero bytes, by tables: joining the CRCs of a message's parts needs this
// (crc32.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::wire {

// Returns what `r` contributes to the whole if kCrc32Joined[which] bytes follow.
std::uint32_t past_zeros_tables(std::uint32_t r, std::size_t which);

}  // namespace verbena::wire
