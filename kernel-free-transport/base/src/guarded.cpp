// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/base/guarded.hpp"

#include <array>
#include <cstdint>

#include "verbena/base/guarded_copy.hpp"
#include "verbena/base/ticks.hpp"

namespace verbena {
namespace {

enum class Way : std::uint8_t { kVectors, kWideVectors, kWords };

constexpr std::size_t kWideLeast = 128;

bool copy(Way way, void* to, const void* from, std::size_t length) noexcept {
  if (way == Way::kWideVectors && length >= kWideLeast) [[likely]] {
    return guarded_moves::by_wide_vectors(to, from, length);
  }
  return way == Way::kWords ? guarded_moves::by_words(to, from, length)
                            : guarded_moves::by_vectors(to, from, length);
}

// Of a payload that fits into the nearest cache. What is faster by a little is so by chance.
Way fastest_way() noexcept {
  std::array<std::uint8_t, 2048> from;
  std::array<std::uint8_t, 2048> to;
  from.fill(1);
  to.fill(0);
  const auto ticks_of = [&](Way way) {
    return least_ticks_of([&] {
      (void)copy(way, to.data(), from.data(), from.size());
      asm volatile("" : : "r"(to.data()) : "memory");
    });
  };
  const Way vectors = guarded_moves::has_wide_vectors() ? Way::kWideVectors : Way::kVectors;
  const std::uint64_t by_vectors = ticks_of(vectors);
  return ticks_of(Way::kWords) < by_vectors - by_vectors / 8 ? Way::kWords : vectors;
}

// kVectors until this file's initialisers ran.
const Way chosen = fastest_way();

}  // namespace

bool guarded_copy_long(void* to, const void* from, std::size_t length) noexcept {
  return copy(chosen, to, from, length);
}

#if defined(VERBENA_GUARDS)

namespace {

// Each is a distance from where it stands.
struct Row {
  std::int32_t begin;
  std::int32_t end;
  std::int32_t target;
};

std::uintptr_t place(const std::int32_t& distance) {
  return reinterpret_cast<std::uintptr_t>(&distance) + static_cast<std::uintptr_t>(distance);
}

}  // namespace

// The linker's.
extern "C" {
extern const Row __start_verbena_guarded[] __attribute__((visibility("hidden")));
extern const Row __stop_verbena_guarded[] __attribute__((visibility("hidden")));
}

std::uintptr_t guarded_resume_at(std::uintptr_t instruction) noexcept {
  for (const Row* row = __start_verbena_guarded; row != __stop_verbena_guarded; ++row) {
    if (instruction >= place(row->begin) && instruction < place(row->end)) {
      return place(row->target);
    }
  }
  return 0;
}

#else

std::uintptr_t guarded_resume_at(std::uintptr_t) noexcept { return 0; }

#endif

}  // namespace verbena
