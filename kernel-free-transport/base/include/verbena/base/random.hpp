// SPDX-License-Identifier: BSD-2-Clause
// A small generator (SplitMix64). The same seed always gives the same numbers, so a run can be
// repeated. For numbers that a peer must not guess, use unpredictable.hpp.
#pragma once

#include <cstdint>

namespace verbena {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  // Returns a number in [0, bound); `bound` must be above 0.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  // Returns true with the probability parts_per_million / 1e6.
  bool chance(std::uint32_t parts_per_million) { return below(1'000'000) < parts_per_million; }

 private:
  std::uint64_t state_;
};

}  // namespace verbena
