// SPDX-License-Identifier: BSD-2-Clause
// CRC-32 past zero bytes, by tables: what joins the CRCs of a message's parts (crc32.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::wire {

// What `r` becomes for a second part of kCrc32Joined[which] bytes, but for that one's own.
std::uint32_t past_zeros_tables(std::uint32_t r, std::size_t which);

}  // namespace verbena::wire
