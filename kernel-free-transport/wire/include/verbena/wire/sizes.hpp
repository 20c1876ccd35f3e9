// SPDX-License-Identifier: BSD-2-Clause
// The maximum lengths of packets and their parts.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::wire {

inline constexpr std::size_t kIcrcSize = 4;
// A limit for all headers of a packet together, and the longest ordinary packet.
inline constexpr std::size_t kMaxHeaders = 64;
inline constexpr std::size_t kMtuMax = 4096;
inline constexpr std::size_t kMaxPacket = kMaxHeaders + kMtuMax + 3;
// The longest payload of a merged packet, and the longest such packet.
inline constexpr std::uint32_t kMergedMost = 32 * 1024;
inline constexpr std::size_t kMaxMerged = kMaxHeaders + kMergedMost + 3;

}  // namespace verbena::wire
