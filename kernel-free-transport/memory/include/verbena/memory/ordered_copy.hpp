// SPDX-License-Identifier: BSD-2-Clause
// A copy into application memory that writes the end last. Applications poll the last bytes of a
// buffer to learn that a whole RDMA WRITE has arrived, and adapters allow it; memcpy promises no
// order and in fact writes the tail of short copies first. So the naturally aligned word at the end
// (8, 4, 2 or 1 bytes) is one store, ordered after all others. An aligned write of 8 bytes is
// atomic for every observer. Returns false if a page is missing (base/guarded.hpp). Pure; called on
// the data path for every packet.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "verbena/base/guarded_copy.hpp"

namespace verbena::memory {

namespace detail {

template <typename Word>
inline bool store_last(std::uint8_t* to, const std::uint8_t* from) noexcept {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return guarded_store(reinterpret_cast<Word*>(static_cast<void*>(to)), word);
}

}  // namespace detail

[[nodiscard]] inline bool ordered_copy(std::uint8_t* to, const void* from,
                                       std::size_t length) noexcept {
  const auto* source = static_cast<const std::uint8_t*>(from);
  if (length == 8 && reinterpret_cast<std::uintptr_t>(to) % 8 == 0) {
    return detail::store_last<std::uint64_t>(to, source);
  }
  if (length == 0) return true;
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(to) + length;
  // The largest power of two that divides the end and fits into the copy.
  const std::size_t widest = length >= 8 ? 8 : std::bit_floor(length);
  const std::size_t aligned = std::size_t{1} << std::countr_zero(end | 8u);
  const std::size_t tail = aligned < widest ? aligned : widest;
  // The difference cannot be negative, which the compiler does not see.
  const std::size_t head = length > tail ? length - tail : 0;
  if (!guarded_copy(to, source, head)) [[unlikely]]
    return false;
  to += head;
  source += head;
  switch (tail) {
    [[likely]] case 8 : return detail::store_last<std::uint64_t>(to, source);
    case 4:
      return detail::store_last<std::uint32_t>(to, source);
    case 2:
      return detail::store_last<std::uint16_t>(to, source);
    default:
      return detail::store_last<std::uint8_t>(to, source);
  }
}

}  // namespace verbena::memory
