// SPDX-License-Identifier: BSD-2-Clause
// The 16,384 numbers of one slot. They are used in turn, so that a number rests as long as others
// are free, and late packets for its last owner find no queue pair. Without the device's seed their
// order cannot be guessed. One thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "verbena/base/types.hpp"
#include "verbena/base/unpredictable.hpp"

namespace verbena::device {

class NumberPool {
 public:
  static constexpr std::uint32_t kNumbers = 1u << Qpn::kIndexBits;

  // The lowest `reserved` numbers are never used.
  NumberPool(UnpredictableRandom& random, std::uint32_t reserved);

  // Returns a free number, or nothing if all are taken.
  std::optional<std::uint32_t> take();
  void give_back(std::uint32_t number);
  bool is_taken(std::uint32_t number) const { return taken_[number]; }

 private:
  static constexpr std::uint32_t kHalfBits = Qpn::kIndexBits / 2;
  static constexpr std::uint32_t kHalf = 1u << kHalfBits;
  static_assert(Qpn::kIndexBits % 2 == 0);

  std::uint32_t at(std::uint32_t place) const;

  std::array<std::array<std::uint8_t, kHalf>, 4> rounds_;
  std::vector<bool> taken_;
  std::uint32_t free_;
  std::uint32_t next_ = 0;  // a position in the order
};

}  // namespace verbena::device
