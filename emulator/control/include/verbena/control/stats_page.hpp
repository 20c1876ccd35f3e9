// SPDX-License-Identifier: BSD-2-Clause
// The counters of one context, in one shared page. The context counts into it. The daemon reads it
// on request, and keeps the last values when the context has ended, however it ended. The page lies
// in a sealed memfd that the daemon makes, with the context's journal behind it.
#pragma once

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "verbena/base/fault_counters.hpp"
#include "verbena/base/lock.hpp"
#include "verbena/base/port_counters.hpp"
#include "verbena/base/rule_counters.hpp"
#include "verbena/control/journal_ring.hpp"

namespace verbena::control {

inline constexpr std::uint32_t kStatsMagic = 0x54535256;  // "VRST"
inline constexpr std::uint32_t kStatsVersion = 4;

// The most faults that one device may have at a time.
inline constexpr std::size_t kFaultsMost = 32;
// The most rules of scripted faults that an emulator may have at a time.
inline constexpr std::size_t kRulesMost = 64;

// What a context has done to packets because of one fault.
struct FaultPart {
  OwnedCounter id;  // FaultSpec::id; 0: none yet
  FaultCounters counters;
};

// What a context has done because of one rule.
struct RulePart {
  OwnedCounter id;  // RuleSpec::id; 0: none yet
  RuleCounters counters;
};

struct StatsPage {
  std::uint32_t magic = kStatsMagic;
  std::uint32_t version = kStatsVersion;
  std::uint32_t slot = 0;
  std::uint32_t reserved = 0;
  PortCounters counters;
  std::array<FaultPart, kFaultsMost> faults;  // indexed by FaultSpec::place
  std::array<RulePart, kRulesMost> rules;     // indexed by RuleSpec::place
};

// The content of the memfd.
struct SharedStats {
  StatsPage page;
  alignas(4096) JournalRing journal;
};
// The size lets a device be opened under a low `ulimit -f`, which rules out rings.
static_assert(sizeof(SharedStats) <= 64 * 1024);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

struct UnmapStats {
  void operator()(SharedStats* stats) const noexcept { ::munmap(stats, sizeof *stats); }
};
using MappedStats = std::unique_ptr<SharedStats, UnmapStats>;

// Returns null, with errno, if the memfd cannot be mapped.
inline MappedStats map_stats(int fd) noexcept {
  void* at = ::mmap(nullptr, sizeof(SharedStats), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return MappedStats(at == MAP_FAILED ? nullptr : static_cast<SharedStats*>(at));
}

}  // namespace verbena::control
