// SPDX-License-Identifier: BSD-2-Clause
// What a socket is asked for again and again: an option that holds for all of its sends is worth a
// change once the same was wanted, and not had, sixteen times in a row. Part of such an option, and
// under the same lock.
#pragma once

#include <cstdint>

namespace verbena::link {

template <typename T>
class Habit {
 public:
  // What is wanted now is had.
  void interrupt() noexcept { repeated_ = 0; }
  // It is not. Whether it shall be.
  bool forms(const T& wanted) noexcept {
    repeated_ = wanted == wanted_ ? repeated_ + 1 : 1;
    wanted_ = wanted;
    if (repeated_ < kUntilChange) return false;
    repeated_ = 0;
    return true;
  }

 private:
  // A change costs as much as a few sends gain by it.
  static constexpr std::uint32_t kUntilChange = 16;

  T wanted_{};
  std::uint32_t repeated_ = 0;
};

}  // namespace verbena::link
