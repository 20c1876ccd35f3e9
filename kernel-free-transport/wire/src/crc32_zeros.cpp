// SPDX-License-Identifier: BSD-2-Clause
#include "crc32_zeros.hpp"

#include <array>

#include "polynomial.hpp"
#include "verbena/base/check.hpp"
#include "verbena/wire/crc32.hpp"

namespace verbena::wire {
namespace {

constexpr Crc32Zeros zeros(std::size_t bytes) {
  Crc32Zeros table;
  const std::uint32_t factor = polynomial::power_of_x(static_cast<unsigned>(8 * bytes));
  for (unsigned i = 0; i < 4; ++i) {
    for (std::uint32_t b = 0; b < 256; ++b) {
      // A single bit needs a product; several bits are the sum of earlier entries.
      const std::uint32_t lowest = b & (0u - b);
      table.byte[i][b] = b == lowest ? polynomial::product(factor, b << (8 * i))
                                     : table.byte[i][lowest] ^ table.byte[i][b ^ lowest];
    }
  }
  return table;
}
constexpr std::array<Crc32Zeros, kCrc32Joined.size()> kZeros{
    zeros(kCrc32Joined[0]), zeros(kCrc32Joined[1]), zeros(kCrc32Joined[2])};

// Four bytes enter an empty register unchanged and are then moved over the zeros with it.
constexpr Crc32Around around(std::size_t bytes) {
  const Crc32Zeros table = zeros(bytes + 4);
  const std::uint32_t factor = polynomial::power_of_x(static_cast<unsigned>(8 * bytes));
  return {table, table.of(~0u) ^ polynomial::product(factor, ~0u)};
}
constexpr std::array<Crc32Around, kCrc32Joined.size()> kAround{
    around(kCrc32Joined[0]), around(kCrc32Joined[1]), around(kCrc32Joined[2])};

}  // namespace

std::uint32_t past_zeros_tables(std::uint32_t r, std::size_t which) { return kZeros[which].of(r); }

const Crc32Around& crc32_around(std::size_t which) {
  VERBENA_CHECK(which < kAround.size());
  return kAround[which];
}

}  // namespace verbena::wire
