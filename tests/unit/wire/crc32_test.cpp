// SPDX-License-Identifier: BSD-2-Clause
// Every variant of the CRC at every length and alignment, compared with the definition bit by bit
// and, where it is installed, with ISA-L.
#include "verbena/wire/crc32.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "verbena/base/random.hpp"

#if defined(VERBENA_HAVE_ISAL)
#include <isa-l/crc.h>
#endif

namespace verbena::wire {
namespace {

std::uint32_t bit_by_bit(std::uint32_t crc, const std::uint8_t* data, std::size_t length) {
  crc = ~crc;
  for (std::size_t i = 0; i < length; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
  }
  return ~crc;
}

std::vector<std::uint8_t> noise(std::size_t length) {
  Random random(length);
  std::vector<std::uint8_t> bytes(length);
  for (auto& b : bytes) b = static_cast<std::uint8_t>(random.next());
  return bytes;
}

TEST(Crc32, CheckValue) {
  const char digits[] = "123456789";
  EXPECT_EQ(crc32(0, reinterpret_cast<const std::uint8_t*>(digits), 9), 0xcbf43926u);
  const std::uint8_t ones[8] = {255, 255, 255, 255, 255, 255, 255, 255};
  EXPECT_EQ(crc32(0, ones, 8), 0x2144df1cu);
  EXPECT_EQ(crc32(5, ones, 0), 5u);
}

TEST(Crc32, EveryVariantAtEveryLength) {
  for (std::size_t length = 0; length < 1200; ++length) {
    // The heap block has exactly that size, so that AddressSanitizer finds a load beyond its end.
    const std::unique_ptr<std::uint8_t[]> exact(new std::uint8_t[length]);
    const auto bytes = noise(length);
    std::copy(bytes.begin(), bytes.end(), exact.get());
    const auto start = static_cast<std::uint32_t>(length * 2654435761u);
    const std::uint32_t meant = bit_by_bit(start, exact.get(), length);
    EXPECT_EQ(crc32(start, exact.get(), length), meant) << length;
    for (std::size_t i = 0; i < kCrc32Variants; ++i) {
      const Crc32Variant& variant = crc32_variants()[i];
      if (!variant.usable) continue;
      ASSERT_EQ(variant.function(start, exact.get(), length, 0), meant)
          << variant.name << ' ' << length;
    }
  }
}

TEST(Crc32, EveryVariantAtEveryAlignment) {
  const auto bytes = noise(5000);
  for (std::size_t offset = 0; offset < 64; ++offset) {
    const std::uint32_t meant = bit_by_bit(1, bytes.data() + offset, 4124);
    for (std::size_t i = 0; i < kCrc32Variants; ++i) {
      const Crc32Variant& variant = crc32_variants()[i];
      if (variant.usable) {
        ASSERT_EQ(variant.function(1, bytes.data() + offset, 4124, 0), meant);
      }
    }
  }
}

TEST(Crc32, EveryVariantCopiesWhatItSums) {
  for (std::size_t length = 256; length <= 4096; length += 256) {
    for (const std::size_t shift : {0u, 1u, 15u, 63u}) {
      const auto source = noise(length + shift);
      const std::uint32_t meant = bit_by_bit(0, source.data() + shift, length);
      for (std::size_t i = 0; i < kCrc32Variants; ++i) {
        const Crc32Variant& variant = crc32_variants()[i];
        if (!variant.usable) continue;
        const std::unique_ptr<std::uint8_t[]> target(new std::uint8_t[length]);
        std::uint32_t sum = 0;
        ASSERT_TRUE(variant.copy(target.get(), source.data() + shift, length, sum));
        ASSERT_EQ(sum, meant) << variant.name << ' ' << length << ' ' << shift;
        ASSERT_TRUE(std::equal(target.get(), target.get() + length, source.data() + shift))
            << variant.name << ' ' << length << ' ' << shift;
      }
    }
  }
}

TEST(Crc32, CopiesAnyLength) {
  for (std::size_t length = 0; length < 1200; ++length) {
    const auto source = noise(length);
    const std::unique_ptr<std::uint8_t[]> target(new std::uint8_t[length]);
    std::uint32_t sum = 0;
    ASSERT_TRUE(crc32_copy(target.get(), source.data(), length, sum));
    ASSERT_EQ(sum, crc32(0, source.data(), length));
    ASSERT_TRUE(std::equal(source.begin(), source.end(), target.get())) << length;
  }
}

TEST(Crc32, JoinsTwoParts) {
  for (std::size_t which = 0; which < kCrc32Joined.size(); ++which) {
    const std::size_t second = kCrc32Joined[which];
    ASSERT_TRUE(crc32_joins(second));
    for (std::size_t first = 0; first < 64; ++first) {
      const auto bytes = noise(first + second);
      const std::uint32_t of_first = crc32(0, bytes.data(), first);
      const std::uint32_t of_second = crc32(0, bytes.data() + first, second);
      const std::uint32_t of_both = crc32(0, bytes.data(), bytes.size());
      EXPECT_EQ(crc32_join(of_first, of_second, second), of_both) << first << ' ' << second;
      for (std::size_t i = 0; i < kCrc32Variants; ++i) {
        const Crc32Variant& variant = crc32_variants()[i];
        if (!variant.usable) continue;
        ASSERT_EQ(variant.past_zeros(of_first, which) ^ of_second, of_both)
            << variant.name << ' ' << first << ' ' << second;
      }
    }
  }
  EXPECT_FALSE(crc32_joins(0));
  EXPECT_FALSE(crc32_joins(4095));
}

TEST(Crc32, BitsOfTheFirstEightBytesEnterAsOnes) {
  constexpr std::uint64_t kOnes = 0x01000000ff00c000u;
  for (std::size_t length = 0; length < 600; ++length) {
    const auto bytes = noise(length);
    auto changed = bytes;
    if (length >= 8) {
      changed[1] |= 0xc0;
      changed[3] |= 0xff;
      changed[7] |= 0x01;
    }
    const std::uint32_t meant = bit_by_bit(3, changed.data(), length);
    EXPECT_EQ(crc32(3, bytes.data(), length, kOnes), meant) << length;
    for (std::size_t i = 0; i < kCrc32Variants; ++i) {
      const Crc32Variant& variant = crc32_variants()[i];
      if (!variant.usable) continue;
      ASSERT_EQ(variant.function(3, bytes.data(), length, kOnes), meant)
          << variant.name << ' ' << length;
    }
  }
}

TEST(Crc32, GoesOnWhereItStopped) {
  const auto bytes = noise(3000);
  const std::uint32_t whole = crc32(0, bytes.data(), bytes.size());
  for (std::size_t cut = 0; cut <= bytes.size(); cut += 37) {
    const std::uint32_t first = crc32(0, bytes.data(), cut);
    ASSERT_EQ(crc32(first, bytes.data() + cut, bytes.size() - cut), whole);
  }
}

#if defined(VERBENA_HAVE_ISAL)
TEST(Crc32, IsalAgreesOnLongInput) {
  const auto bytes = noise(1 << 20);
  for (std::size_t length = 1; length <= bytes.size(); length = length * 3 + 1) {
    EXPECT_EQ(crc32(0, bytes.data(), length), crc32_gzip_refl(0, bytes.data(), length));
  }
}
#endif

TEST(Crc32, RunsAVariantThatTheProcessorHas) {
  const Crc32Variant& variant = crc32_variant();
  EXPECT_TRUE(variant.usable);
  const std::array<std::uint8_t, 300> bytes{1, 2, 3};
  EXPECT_EQ(crc32(7, bytes.data(), bytes.size()),
            variant.function(7, bytes.data(), bytes.size(), 0));
}

}  // namespace
}  // namespace verbena::wire
