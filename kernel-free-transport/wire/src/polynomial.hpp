// SPDX-License-Identifier: BSD-2-Clause
// Arithmetic modulo the CRC-32 polynomial over GF(2), at compile time for constants and at run time
// to recover an IP identification. A remainder is represented as in the CRC register: bit 31 is the
// coefficient of x^0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbena::wire::polynomial {

inline constexpr std::uint32_t kReflected = 0xedb88320u;
inline constexpr std::uint32_t kOne = 0x80000000u;  // x^0

constexpr std::uint32_t times_x(std::uint32_t a) {
  return (a >> 1) ^ (kReflected & (0u - (a & 1)));
}
constexpr std::uint32_t divided_by_x(std::uint32_t a) {
  return (a & kOne) != 0 ? ((a ^ kReflected) << 1) | 1 : a << 1;
}

constexpr std::uint32_t product(std::uint32_t a, std::uint32_t b) {
  std::uint32_t sum = 0;
  for (int i = 0; i < 32; ++i) {
    sum ^= b & (0u - (a >> 31));
    a <<= 1;
    b = times_x(b);
  }
  return sum;
}

constexpr std::uint32_t power_of_x(unsigned exponent) {
  std::uint32_t result = kOne;
  std::uint32_t square = kOne >> 1;  // x^1
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) result = product(result, square);
    square = product(square, square);
  }
  return result;
}

// kByteTables[n][b] is the register after the byte b and n zero bytes have entered an empty one.
inline constexpr std::array<std::array<std::uint32_t, 256>, 8> kByteTables = [] {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t r = b;
    for (int bit = 0; bit < 8; ++bit) r = times_x(r);
    tables[0][b] = r;
  }
  for (std::size_t n = 1; n < tables.size(); ++n) {
    for (std::size_t b = 0; b < 256; ++b) {
      const std::uint32_t r = tables[n - 1][b];
      tables[n][b] = (r >> 8) ^ tables[0][r & 0xff];
    }
  }
  return tables;
}();

}  // namespace verbena::wire::polynomial
