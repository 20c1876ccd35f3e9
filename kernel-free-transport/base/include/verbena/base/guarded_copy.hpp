// SPDX-License-Identifier: BSD-2-Clause
// Copies from and to memory that may be gone (guarded.hpp). A function returns false if a page on
// either side was missing or protected; a part may have been copied by then. The two sides must not
// overlap. Any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "verbena/base/guarded.hpp"
#if !defined(VERBENA_GUARDS)
#include "verbena/base/guarded_plain.hpp"
#elif defined(__x86_64__)
#include "verbena/base/guarded_x86_64.hpp"
#else
#include "verbena/base/guarded_aarch64.hpp"
#endif

namespace verbena {

// Copies more than 64 bytes in the way that is fastest on this processor.
[[nodiscard]] bool guarded_copy_long(void* to, const void* from, std::size_t length) noexcept;

[[nodiscard]] inline bool guarded_copy(void* to, const void* from, std::size_t length) noexcept {
  if (length >= 8) {
    if (length <= 16) return guarded_moves::both_ends<8>(to, from, length);
    if (length <= 32) return guarded_moves::both_ends<16>(to, from, length);
    if (length <= 64) return guarded_moves::both_ends<32>(to, from, length);
    return guarded_copy_long(to, from, length);
  }
  if (length >= 4) return guarded_moves::both_ends<4>(to, from, length);
  if (length >= 2) return guarded_moves::both_ends<2>(to, from, length);
  return length == 0 || guarded_moves::one_byte(to, from);
}

// Operations on aligned words. A store comes after all earlier stores. The other two return the
// original value; they are atomic for the whole machine and sequentially consistent.
template <typename Word>
[[nodiscard]] bool guarded_store(Word* to, Word word) noexcept {
  return guarded_moves::store(to, word);
}
[[nodiscard]] inline bool guarded_compare_swap(std::uint64_t* word, std::uint64_t compare,
                                               std::uint64_t swap,
                                               std::uint64_t* original) noexcept {
  return guarded_moves::compare_swap(word, compare, swap, original);
}
[[nodiscard]] inline bool guarded_fetch_add(std::uint64_t* word, std::uint64_t add,
                                            std::uint64_t* original) noexcept {
  return guarded_moves::fetch_add(word, add, original);
}

}  // namespace verbena
