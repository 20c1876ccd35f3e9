// SPDX-License-Identifier: BSD-2-Clause
// What the device says it can do (ibv_query_device) and holds itself to.
#pragma once

#include <cstdint>

namespace verbena::provider {

// The prefix of the device's GUIDs, which is of the locally administered kind.
inline constexpr std::uint32_t kVendorId = 0x025652;
inline constexpr std::uint32_t kVendorPart = 1;
inline constexpr std::uint32_t kHardwareVersion = 1;

inline constexpr std::uint32_t kMaxQp = 1022u << 14;  // slots of 16,384 numbers
inline constexpr std::uint32_t kMaxQpAdvertised = 262144;
inline constexpr std::uint32_t kMaxQpWr = 32768;
// A program that polls one completion for each event (perftest -e) is one behind after an event
// that was raised because it armed with completions unpolled, and posts all the same.
inline constexpr std::uint32_t kMinSendWr = 4;
inline constexpr std::uint32_t kMaxSge = 30;
inline constexpr std::uint32_t kMaxInline = 1024;
// Adapters have room for a little in any case, and programs send it without having asked.
inline constexpr std::uint32_t kMinInline = 64;
inline constexpr std::uint32_t kMaxCq = 1u << 20;
inline constexpr std::uint32_t kMaxCqe = 4194304;
inline constexpr std::uint32_t kMaxMr = 1u << 20;
inline constexpr std::uint32_t kMaxMw = 1u << 20;
inline constexpr std::uint32_t kMaxPd = 1u << 20;
inline constexpr std::uint32_t kMaxAh = 1u << 24;
inline constexpr std::uint32_t kMaxSrq = 1u << 20;
inline constexpr std::uint32_t kMaxSrqWr = 32768;
inline constexpr std::uint8_t kMaxRdAtomic = 16;
inline constexpr std::uint32_t kMaxGroups = 8192;
inline constexpr std::uint32_t kMaxQpPerGroup = 240;
inline constexpr std::uint32_t kMaxMessage = 1u << 30;
// Tag matching (ibv_create_srq_ex with IBV_SRQT_TM).
inline constexpr std::uint32_t kMaxTags = 16384;
inline constexpr std::uint32_t kMaxTagOperations = 16384;
inline constexpr std::uint32_t kMaxRendezvousHeader = 128;
inline constexpr std::uint64_t kMaxDeviceMemory = 1u << 20;
inline constexpr std::uint32_t kCompletionVectors = 1;

}  // namespace verbena::provider
