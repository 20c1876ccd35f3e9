// SPDX-License-Identifier: BSD-2-Clause
// A small seeded generator (SplitMix64). The engine's only source of chance, so that a seed
// repeats a run.
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
  // Uniform in [0, bound); bound > 0.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  // True with the probability parts_per_million / 1e6.
  bool chance(std::uint32_t parts_per_million) { return below(1'000'000) < parts_per_million; }

 private:
  std::uint64_t state_;
};

}  // namespace verbena
