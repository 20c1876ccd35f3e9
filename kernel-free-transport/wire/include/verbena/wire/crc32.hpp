// SPDX-License-Identifier: BSD-2-Clause
// CRC-32 as Ethernet has it (reflected polynomial 0xEDB88320), in the convention of zlib: start
// with 0, feed the value back in to go on. Picks at load time the fastest that the processor has:
// 512-bit carry-less multiplication, 128-bit, or shifts of words. Own code, because it is linked
// into a plugin that may bring no library of its own along and the distribution has ISA-L only as a
// shared one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbena::wire {

// `ones` are bits of the first eight bytes (the first byte lowest) that enter as ones, whatever
// they are; without effect where there are fewer than eight.
std::uint32_t crc32(std::uint32_t crc, const std::uint8_t* data, std::size_t length,
                    std::uint64_t ones = 0);

// The sum of memory that may be gone (base/guarded.hpp; false, then), and a copy of it: in one pass
// for whole multiples of 256 bytes. Every byte is read once, so that copy and sum agree though
// others write there.
[[nodiscard]] bool crc32_copy(std::uint8_t* to, const std::uint8_t* from, std::size_t length,
                              std::uint32_t& sum);

// The CRC-32 of two parts in a row, from those of each. For some lengths of the second, those of a
// full packet's payload.
inline constexpr std::array<std::size_t, 3> kCrc32Joined{1024, 2048, 4096};
std::uint32_t crc32_join(std::uint32_t first, std::uint32_t second, std::size_t second_length);
// What a register becomes when a number of zero bytes follow, for each of its bytes: it is linear
// in the message.
struct Crc32Zeros {
  constexpr std::uint32_t of(std::uint32_t r) const {
    return byte[0][r & 0xff] ^ byte[1][r >> 8 & 0xff] ^ byte[2][r >> 16 & 0xff] ^ byte[3][r >> 24];
  }
  std::array<std::array<std::uint32_t, 256>, 4> byte{};
};
// The CRC-32 of two parts, of those of each, with four more bytes between them, the first of which
// is the lowest of `between`; for second parts of one length.
struct Crc32Around {
  std::uint32_t join(std::uint32_t first, std::uint32_t between, std::uint32_t second) const {
    return zeros.of(first ^ between) ^ inversions ^ second;
  }
  Crc32Zeros zeros;          // as many as the second part has bytes, and four
  std::uint32_t inversions;  // what those of all three values come to
};
// Of kCrc32Joined[which].
const Crc32Around& crc32_around(std::size_t which);
// kCrc32Joined.size() if it is none of them.
constexpr std::size_t crc32_which_joined(std::size_t second_length) {
  std::size_t which = 0;
  while (which < kCrc32Joined.size() && kCrc32Joined[which] != second_length) ++which;
  return which;
}
constexpr bool crc32_joins(std::size_t second_length) {
  return crc32_which_joined(second_length) != kCrc32Joined.size();
}

// The variants by name, for tests and benchmarks; `usable` says whether this processor has it.
struct Crc32Variant {
  const char* name;
  bool usable;
  std::uint32_t (*function)(std::uint32_t crc, const std::uint8_t* data, std::size_t length,
                            std::uint64_t ones);
  // Of a positive multiple of 256 bytes, guarded.
  bool (*copy)(std::uint8_t* to, const std::uint8_t* from, std::size_t length, std::uint32_t& sum);
  // What a part's CRC becomes for a second one of kCrc32Joined[which] bytes, but for that one's
  // own.
  std::uint32_t (*past_zeros)(std::uint32_t crc, std::size_t which);
};
inline constexpr std::size_t kCrc32Variants = 3;
// Fastest first.
const Crc32Variant* crc32_variants();
// What crc32() runs.
const Crc32Variant& crc32_variant();

}  // namespace verbena::wire
