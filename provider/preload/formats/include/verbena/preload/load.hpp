// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

namespace verbena::preload {

// A value of plain bytes, wherever it stands; all of it is there.
template <typename T>
T load(std::span<const std::uint8_t> bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace verbena::preload
