// SPDX-License-Identifier: BSD-2-Clause
// A copy that is usually short: headers, small messages, lists of a few entries. A call of memcpy
// costs more than such a copy, and so does a loop. Longer copies use memcpy. The two sides must not
// overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace verbena {

namespace detail {

// Copies `kPart` bytes at each end. The two parts may overlap.
template <std::size_t kPart>
inline void copy_ends(std::uint8_t* to, const std::uint8_t* from, std::size_t length) noexcept {
  std::memcpy(to, from, kPart);
  std::memcpy(to + length - kPart, from + length - kPart, kPart);
}

}  // namespace detail

inline void short_copy(void* to, const void* from, std::size_t length) noexcept {
  auto* t = static_cast<std::uint8_t*>(to);
  const auto* f = static_cast<const std::uint8_t*>(from);
  if (length >= 8) {
    if (length <= 16) return detail::copy_ends<8>(t, f, length);
    if (length <= 32) return detail::copy_ends<16>(t, f, length);
    if (length <= 64) return detail::copy_ends<32>(t, f, length);
    std::memcpy(t, f, length);
  } else if (length >= 4) {
    detail::copy_ends<4>(t, f, length);
  } else if (length >= 2) {
    detail::copy_ends<2>(t, f, length);
  } else if (length != 0) {
    *t = *f;
  }
}

}  // namespace verbena
