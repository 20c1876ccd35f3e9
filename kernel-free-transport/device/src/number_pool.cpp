// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/device/number_pool.hpp"

#include <algorithm>

#include "verbena/base/check.hpp"

namespace verbena::device {

NumberPool::NumberPool(UnpredictableRandom& random, std::uint32_t reserved)
    : taken_(kNumbers), free_(kNumbers - reserved) {
  std::fill_n(taken_.begin(), reserved, true);
  for (auto& round : rounds_) {
    for (std::uint8_t& value : round) value = static_cast<std::uint8_t>(random.below(kHalf));
  }
}

// A Feistel network: whatever the rounds contain, each position has a number of its own.
std::uint32_t NumberPool::at(std::uint32_t place) const {
  std::uint32_t left = place >> kHalfBits;
  std::uint32_t right = place % kHalf;
  for (const auto& round : rounds_) {
    const std::uint32_t mixed = left ^ round[right];
    left = right;
    right = mixed;
  }
  return left << kHalfBits | right;
}

std::optional<std::uint32_t> NumberPool::take() {
  if (free_ == 0) return std::nullopt;
  while (taken_[at(next_)]) next_ = (next_ + 1) % kNumbers;
  const std::uint32_t number = at(next_);
  next_ = (next_ + 1) % kNumbers;
  taken_[number] = true;
  --free_;
  return number;
}

void NumberPool::give_back(std::uint32_t number) {
  VERBENA_CHECK(taken_[number]);
  taken_[number] = false;
  ++free_;
}

}  // namespace verbena::device
