// SPDX-License-Identifier: BSD-2-Clause
// Fields at every bit and of every width: reading and writing gives the same as bit by bit, and the
// bits beside a field do not change.
#include "verbena/cm/field.hpp"

#include <gtest/gtest.h>

#include <random>

namespace verbena::cm {
namespace {

using Bytes = std::array<std::uint8_t, 12>;

bool bit(const Bytes& bytes, std::size_t i) { return (bytes[i / 8] >> (7 - i % 8) & 1) != 0; }

TEST(FieldTest, IsItsBitsAndNoOthers) {
  std::mt19937_64 random(1);
  for (std::uint16_t at = 0; at < 24; ++at) {
    for (std::uint16_t width = 1; width <= 64; ++width) {
      const Field field{"field", static_cast<std::uint16_t>(at / 8),
                        static_cast<std::uint16_t>(at % 8), width};
      Bytes before;
      for (std::uint8_t& byte : before) byte = static_cast<std::uint8_t>(random());
      std::uint64_t expected = 0;
      for (std::size_t i = at; i < at + width; ++i) expected = expected << 1 | bit(before, i);
      ASSERT_EQ(read_bits(before, field), expected) << at << ' ' << width;

      const std::uint64_t value = random();  // usually wider than the field
      Bytes after = before;
      write_bits(after, field, value);
      for (std::size_t i = 0; i < 8 * after.size(); ++i) {
        const bool inside = i >= at && i < std::size_t{at} + width;
        const bool wanted = inside ? (value >> (at + width - 1 - i) & 1) != 0 : bit(before, i);
        ASSERT_EQ(bit(after, i), wanted) << at << ' ' << width << ' ' << i;
      }
    }
  }
}

// The compiler can evaluate a read of a field.
TEST(FieldTest, CanBeReadWhileCompiling) {
  static constexpr std::array<std::uint8_t, 3> kBytes{0x12, 0x34, 0x56};
  static_assert(read_bits(kBytes, {"middle", 0, 4, 16}) == 0x2345);
  SUCCEED();
}

}  // namespace
}  // namespace verbena::cm
