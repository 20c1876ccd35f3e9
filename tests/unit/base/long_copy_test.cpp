// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/base/long_copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace verbena {
namespace {

using Copy = void (*)(void*, const void*, std::size_t) noexcept;

class LongCopy : public testing::TestWithParam<Copy> {};

// Both neighbours of the copy stay what they were.
TEST_P(LongCopy, CopiesEveryLengthAndNothingElse) {
  constexpr std::size_t kMargin = 16;
  constexpr std::size_t kLongest = 333;
  std::vector<std::uint8_t> from(kLongest + kMargin);
  std::iota(from.begin(), from.end(), std::uint8_t{1});
  for (std::size_t length = kLongCopyLeast; length <= kLongest; ++length) {
    for (std::size_t shift = 0; shift < 8; ++shift) {
      std::vector<std::uint8_t> to(length + 2 * kMargin, 0xee);
      std::vector<std::uint8_t> expected = to;
      std::copy_n(from.begin() + 3, length, expected.begin() + static_cast<long>(shift));
      GetParam()(to.data() + shift, from.data() + 3, length);
      ASSERT_EQ(to, expected) << "length " << length << ", to +" << shift;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EachWay, LongCopy, testing::Values(&long_copy, &copy_by_words),
                         [](const testing::TestParamInfo<Copy>& way) {
                           return way.index == 0 ? "AsChosen" : "ByWords";
                         });

}  // namespace
}  // namespace verbena
