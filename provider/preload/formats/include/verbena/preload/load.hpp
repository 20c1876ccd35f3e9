// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

namespace verbena::preload {

// Returns a value of plain bytes at any alignment. The caller has checked that it lies in `bytes`.
template <typename T>
T load(std::span<const std::uint8_t> bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace verbena::preload
