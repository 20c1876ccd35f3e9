// SPDX-License-Identifier: BSD-2-Clause
// CRC-32 by shifts of words and by tables: the variant for processors without carry-less
// multiplication. The functions do what crc32.hpp says, except that a copy takes any multiple of
// eight bytes from 40 on.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::wire {

std::uint32_t crc32_words(std::uint32_t crc, const std::uint8_t* data, std::size_t length,
                          std::uint64_t ones);
bool copy_words(std::uint8_t* to, const std::uint8_t* from, std::size_t length, std::uint32_t& sum);

}  // namespace verbena::wire
