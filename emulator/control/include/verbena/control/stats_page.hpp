// SPDX-License-Identifier: BSD-2-Clause
// The counters of one context, in one shared page: the context counts into it, the emulator reads
// it whenever somebody asks, and keeps its last values when the context has ended, however that
// was. Lies in a sealed memfd that the emulator makes, with the context's journal behind it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "verbena/base/fault_counters.hpp"
#include "verbena/base/lock.hpp"
#include "verbena/base/port_counters.hpp"
#include "verbena/base/rule_counters.hpp"
#include "verbena/control/journal_ring.hpp"

namespace verbena::control {

inline constexpr std::uint32_t kStatsMagic = 0x54535256;  // "VRST"
inline constexpr std::uint32_t kStatsVersion = 4;

// Faults that one device may have at a time.
inline constexpr std::size_t kFaultsMost = 32;
// Rules of scripted faults that an emulator may have at a time.
inline constexpr std::size_t kRulesMost = 64;

// What a context has done to packets because of one fault.
struct FaultPart {
  OwnedCounter id;  // of which fault (FaultSpec::id); 0: none yet
  FaultCounters counters;
};

// The same of a rule.
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
  std::array<FaultPart, kFaultsMost> faults;  // by FaultSpec::place
  std::array<RulePart, kRulesMost> rules;     // by RuleSpec::place
};

// The whole memfd.
struct SharedStats {
  StatsPage page;
  alignas(4096) JournalRing journal;
};
// Under a low `ulimit -f` a device can still be opened, though rings cannot be had.
static_assert(sizeof(SharedStats) <= 64 * 1024);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace verbena::control
