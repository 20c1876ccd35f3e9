// SPDX-License-Identifier: BSD-2-Clause
// CRC-32 of Ethernet (reflected polynomial 0xEDB88320) with the convention of zlib: start with 0,
// and pass the result in again to continue. The fastest variant for the processor is selected at
// load time: 512-bit carry-less multiplication, 128-bit, or shifts of words. The code is our own
// because the plugin that it is linked into may bring no library, and distributions have ISA-L only
// as a shared library.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbena::wire {

// `ones` are bits of the first eight bytes (first byte lowest) that count as ones, whatever they
// are. It has no effect if there are fewer than eight bytes.
std::uint32_t crc32(std::uint32_t crc, const std::uint8_t* data, std::size_t length,
                    std::uint64_t ones = 0);

// Copies memory that may be gone (base/guarded.hpp) and computes its CRC; returns false if it is
// gone. Whole multiples of 256 bytes take one pass. Every byte is read once, so copy and sum agree
// even if others write to the memory.
[[nodiscard]] bool crc32_copy(std::uint8_t* to, const std::uint8_t* from, std::size_t length,
                              std::uint32_t& sum);

// Joins the CRC-32s of two consecutive parts. The second part must have one of these lengths, which
// are payloads of full packets.
inline constexpr std::array<std::size_t, 3> kCrc32Joined{1024, 2048, 4096};
std::uint32_t crc32_join(std::uint32_t first, std::uint32_t second, std::size_t second_length);
// Returns the index of a length in kCrc32Joined, or kCrc32Joined.size() if it has none.
constexpr std::size_t crc32_which_joined(std::size_t second_length) {
  std::size_t which = 0;
  while (which < kCrc32Joined.size() && kCrc32Joined[which] != second_length) ++which;
  return which;
}
constexpr bool crc32_joins(std::size_t second_length) {
  return crc32_which_joined(second_length) != kCrc32Joined.size();
}

// A variant, for tests and benchmarks; `usable` says whether this processor can run it.
struct Crc32Variant {
  const char* name;
  bool usable;
  std::uint32_t (*function)(std::uint32_t crc, const std::uint8_t* data, std::size_t length,
                            std::uint64_t ones);
  // Copies a positive multiple of 256 bytes by guarded reads.
  bool (*copy)(std::uint8_t* to, const std::uint8_t* from, std::size_t length, std::uint32_t& sum);
  // Returns what a part's CRC contributes to the whole if kCrc32Joined[which] bytes follow it.
  std::uint32_t (*past_zeros)(std::uint32_t crc, std::size_t which);
};
inline constexpr std::size_t kCrc32Variants = 3;
// Returns all variants, fastest first.
const Crc32Variant* crc32_variants();
// Returns the variant that crc32() uses.
const Crc32Variant& crc32_variant();

}  // namespace verbena::wire
