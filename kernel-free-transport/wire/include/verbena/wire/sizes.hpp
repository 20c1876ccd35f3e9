// SPDX-License-Identifier: BSD-2-Clause
// How long packets and their parts may be.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::wire {

inline constexpr std::size_t kIcrcSize = 4;
// The longest chain of headers (BTH + DETH + ... well within) and the longest packet we emit.
inline constexpr std::size_t kMaxHeaders = 64;
inline constexpr std::size_t kMtuMax = 4096;
inline constexpr std::size_t kMaxPacket = kMaxHeaders + kMtuMax + 3;
// The longest payload of a merged packet, and the longest such packet.
inline constexpr std::uint32_t kMergedMost = 32 * 1024;
inline constexpr std::size_t kMaxMerged = kMaxHeaders + kMergedMost + 3;

}  // namespace verbena::wire
