// SPDX-License-Identifier: BSD-2-Clause
// The source of everything random in a run; follows from the seed.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace verbena::threads {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // Returns a number in [0, end); `end` is below 2^32.
  std::uint64_t below(std::uint64_t end) { return ((next() >> 32) * end) >> 32; }
  std::uint64_t between(std::uint64_t least, std::uint64_t most) {
    return least + below(most - least + 1);
  }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  template <typename T>
  T one_of(std::initializer_list<T> all) {
    return all.begin()[below(all.size())];
  }

 private:
  std::uint64_t state_;
};

}  // namespace verbena::threads
