// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/base/short_copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace verbena {
namespace {

constexpr std::size_t kLongest = 200;
constexpr std::size_t kMargin = 64;

// Lengths are copied in different ways. The bytes before and behind the copy must not change.
TEST(ShortCopy, CopiesEveryLengthAndNothingElse) {
  std::array<std::uint8_t, kLongest + kMargin> from;
  std::iota(from.begin(), from.end(), std::uint8_t{1});
  for (std::size_t length = 0; length <= kLongest; ++length) {
    for (std::size_t shift = 0; shift < 16; ++shift) {
      std::array<std::uint8_t, kLongest + 2 * kMargin> to;
      to.fill(0xee);
      short_copy(to.data() + shift, from.data() + 3, length);
      auto expected = to;
      expected.fill(0xee);
      std::copy_n(from.begin() + 3, length, expected.begin() + shift);
      ASSERT_EQ(to, expected) << "length " << length << ", from +" << shift;
    }
  }
}

// A copy of no bytes needs no address.
TEST(ShortCopy, NothingIsCopiedFromNowhere) { short_copy(nullptr, nullptr, 0); }

}  // namespace
}  // namespace verbena
