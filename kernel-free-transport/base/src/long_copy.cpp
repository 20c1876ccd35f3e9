// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/base/long_copy.hpp"

#include <array>
#include <cstdint>
#include <cstring>

#include "verbena/base/ticks.hpp"

namespace verbena {
namespace {

constexpr std::size_t kStep = 32;
static_assert(kLongCopyLeast >= kStep);

// Read before any is written: an emulated processor keeps them in registers for that long.
struct Words {
  explicit Words(const std::uint8_t* from) noexcept {
    std::memcpy(&a, from, 8);
    std::memcpy(&b, from + 8, 8);
    std::memcpy(&c, from + 16, 8);
    std::memcpy(&d, from + 24, 8);
    // Or the compiler makes vectors of them.
    asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
  }
  void write_to(std::uint8_t* to) const noexcept {
    std::memcpy(to, &a, 8);
    std::memcpy(to + 8, &b, 8);
    std::memcpy(to + 16, &c, 8);
    std::memcpy(to + 24, &d, 8);
  }

  std::uint64_t a, b, c, d;
};

// Of a payload that fits into the nearest cache. One that is faster by a little is so by chance.
bool are_words_faster() noexcept {
  std::array<std::uint8_t, 2048> from;
  std::array<std::uint8_t, 2048> to;
  from.fill(1);
  to.fill(0);
  const auto ticks_of = [&](auto&& copy) {
    return least_ticks_of([&] {
      copy(to.data(), from.data(), from.size());
      asm volatile("" : : "r"(to.data()) : "memory");
    });
  };
  const std::uint64_t by_memcpy =
      ticks_of([](void* t, const void* f, std::size_t n) { std::memcpy(t, f, n); });
  const std::uint64_t by_words = ticks_of(copy_by_words);
  return by_words < by_memcpy - by_memcpy / 8;
}

// False until this file's initialisers ran.
const bool goes_by_words = are_words_faster();

}  // namespace

// Within one page of code, from one to another of which an emulated processor goes slowly.
[[gnu::noinline, gnu::aligned(256)]] void copy_by_words(void* to, const void* from,
                                                        std::size_t length) noexcept {
  auto* t = static_cast<std::uint8_t*>(to);
  const auto* f = static_cast<const std::uint8_t*>(from);
  const Words last(f + length - kStep);
  std::uint8_t* const t_of_last = t + length - kStep;
  for (; length > kStep; length -= kStep, t += kStep, f += kStep) Words(f).write_to(t);
  last.write_to(t_of_last);
}

void long_copy(void* to, const void* from, std::size_t length) noexcept {
  if (goes_by_words) [[unlikely]]
    return copy_by_words(to, from, length);
  std::memcpy(to, from, length);
}

}  // namespace verbena
