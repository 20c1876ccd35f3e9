// SPDX-License-Identifier: BSD-2-Clause
// The moves under guarded_copy.hpp where there are no rows (guarded.hpp): plain code that always
// returns true.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace verbena::guarded_moves {

inline bool one_byte(void* to, const void* from) noexcept {
  std::memcpy(to, from, 1);
  return true;
}
template <std::size_t kPart>
bool both_ends(void* to, const void* from, std::size_t length) noexcept {
  std::memcpy(to, from, length);
  return true;
}
inline bool by_vectors(void* to, const void* from, std::size_t length) noexcept {
  std::memcpy(to, from, length);
  return true;
}
inline bool copies_strings_fast() noexcept { return false; }
inline bool by_string(void* to, const void* from, std::size_t length) noexcept {
  return by_vectors(to, from, length);
}

inline std::uint64_t load(const void* at, std::uint32_t&) noexcept {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

template <typename Word>
bool store(Word* to, Word word) noexcept {
  __atomic_store_n(to, word, __ATOMIC_RELEASE);
  return true;
}
inline bool compare_swap(std::uint64_t* word, std::uint64_t compare, std::uint64_t swap,
                         std::uint64_t* original) noexcept {
  __atomic_compare_exchange_n(word, &compare, swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  *original = compare;
  return true;
}
inline bool fetch_add(std::uint64_t* word, std::uint64_t add, std::uint64_t* original) noexcept {
  *original = __atomic_fetch_add(word, add, __ATOMIC_SEQ_CST);
  return true;
}

}  // namespace verbena::guarded_moves
