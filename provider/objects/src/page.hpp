// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <cstdint>

namespace verbena::provider {

inline constexpr std::uint64_t kPage = 4096;

inline void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

}  // namespace verbena::provider
