// SPDX-License-Identifier: BSD-2-Clause
// What all ways of registering memory share.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "verbena/context/context.hpp"

namespace verbena::provider {

// Bits that a device may ignore (IBV_ACCESS_OPTIONAL_RANGE).
inline constexpr unsigned kOptionalAccess = 0x3ff00000u;
inline constexpr unsigned kKnownAccess =
    memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic |
    memory::kWindowBind | memory::kZeroBased | memory::kOnDemand | memory::kHugePages |
    memory::kFlushGlobal | memory::kFlushPersistent;

// Throws VerbRefused when the bits contradict each other or mean nothing.
void check_access(const char* verb, unsigned access);
// Registers the region. If it cannot, throws VerbRefused and explains.
std::uint32_t register_region(Context& context, const char* verb,
                              const memory::RegionRequest& request);
// Makes the handle of a registered key.
ibv_mr* make_mr(Context& context, Pd& pd, std::uint32_t key, abi::MrType type, int access);

}  // namespace verbena::provider
