// SPDX-License-Identifier: BSD-2-Clause
// The limits that the device reports (ibv_query_device) and enforces.
#pragma once

#include <cstdint>

namespace verbena::provider {

// The prefix of the device's GUIDs, which is locally administered.
inline constexpr std::uint32_t kVendorId = 0x025652;
inline constexpr std::uint32_t kVendorPart = 1;
inline constexpr std::uint32_t kHardwareVersion = 1;

inline constexpr std::uint32_t kMaxQpAdvertised = 262144;
inline constexpr std::uint32_t kMaxQpWr = 32768;
// A program that polls one completion for each event (perftest -e) lags one completion behind,
// after an event that was raised because the program armed while completions were unpolled. It
// posts all the same.
inline constexpr std::uint32_t kMinSendWr = 4;
inline constexpr std::uint32_t kMinRecvSge = 1;  // of a queue pair that receives at all
inline constexpr std::uint32_t kMaxSge = 30;
inline constexpr std::uint32_t kMaxInline = 1024;
// Adapters always have room for some inline data, and programs send it without having asked for
// room.
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
inline constexpr std::uint32_t kMaxQpPerGroup = 4096;         // what a context may have
inline constexpr std::uint32_t kMaxGroupMemberships = 16384;  // what a port has
inline constexpr std::uint32_t kMaxMessage = 1u << 30;
// Tag matching (ibv_create_srq_ex with IBV_SRQT_TM).
inline constexpr std::uint32_t kMaxTags = 16384;
inline constexpr std::uint32_t kMaxTagOperations = 16384;
inline constexpr std::uint32_t kMaxRendezvousHeader = 128;
inline constexpr std::uint64_t kMaxDeviceMemory = 1u << 20;
inline constexpr std::uint32_t kCompletionVectors = 1;

}  // namespace verbena::provider
