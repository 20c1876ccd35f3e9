// SPDX-License-Identifier: BSD-2-Clause
// Faults and rules: what a user asks for, and what is in force at a context.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "verbena/control/message.hpp"
#include "verbena/control/silent_processes.hpp"

namespace verbena::control {

// Faults of the network, as shares in parts per million of the packets that are sent.
struct FaultValues {
  std::uint32_t loss_ppm = 0;
  std::uint32_t duplicate_ppm = 0;
  std::uint32_t reorder_ppm = 0;
  std::uint32_t corrupt_ppm = 0;
  std::uint64_t delay_ns = 0;
  std::uint64_t jitter_ns = 0;
  std::uint64_t rate_bytes_per_second = 0;  // 0: no limit

  bool is_none() const {
    return loss_ppm == 0 && duplicate_ppm == 0 && reorder_ppm == 0 && corrupt_ppm == 0 &&
           delay_ns == 0 && jitter_ns == 0 && rate_bytes_per_second == 0;
  }
  bool operator==(const FaultValues&) const = default;
  VERBENA_FIELDS {
    a(m.loss_ppm, m.duplicate_ppm, m.reorder_ppm, m.corrupt_ppm, m.delay_ns, m.jitter_ns,
      m.rate_bytes_per_second);
  }
};

// Bits that say which of the values a change is about.
enum FaultField : std::uint32_t {
  kFaultLoss = 1,
  kFaultDuplicate = 2,
  kFaultReorder = 4,
  kFaultCorrupt = 8,
  kFaultDelay = 16,
  kFaultJitter = 32,
  kFaultRate = 64,
  kFaultSeed = 128,
};

// A fault that is in force for a queue pair.
struct FaultSpec {
  static constexpr std::uint32_t kEveryQp = 0;  // every queue pair that has no fault of its own
  static constexpr std::uint32_t kCm = 1;       // QP1: connection management, which the daemon does
  std::uint32_t qpn = kEveryQp;
  // The entry of the stats page in which a context counts what this fault does.
  std::uint32_t place = 0;
  std::uint64_t id = 0;
  FaultValues values;
  std::uint64_t seed = 0;
  bool has_own_line = false;  // the rate is this queue pair's; else all share a line of that rate
  bool is_of_one_queue_pair() const { return qpn != kEveryQp && qpn != kCm; }
  bool operator==(const FaultSpec&) const = default;
  VERBENA_FIELDS { a(m.qpn, m.place, m.id, m.values, m.seed, m.has_own_line); }
};

// A rule of a scripted fault.
struct RuleSpec {
  // The entry of the stats page in which a context counts what this rule does.
  std::uint32_t place = 0;
  std::uint64_t id = 0;
  std::string text;        // fault/rule.hpp
  std::uint64_t seed = 0;  // 0 if the rule has no chances
  bool operator==(const RuleSpec&) const = default;
  VERBENA_FIELDS { a(m.place, m.id, m.text, m.seed); }
};

// Tells a provider all faults of its device and all rules. They replace the earlier ones.
struct SetFault {
  std::string device;
  std::vector<FaultSpec> faults;
  std::uint32_t ticket = 0;
  std::vector<RuleSpec> rules;
  VERBENA_MESSAGE(kSetFault) { a(m.device, m.faults, m.ticket, m.rules); }
};

// A provider's answer to SetFault: what it sends from now on meets these faults. A provider that
// got several SetFault before it looked answers only the last ticket.
struct FaultsInForce {
  std::uint32_t ticket = 0;
  VERBENA_MESSAGE(kFaultsInForce) { a(m.ticket); }
};

// A request by `verbena fault`: changes the named values, leaves the others, and adds rules behind
// the existing ones. An empty device means all. The daemon answers with FaultChanged.
struct ChangeFault {
  std::string device;
  std::uint32_t qpn = 0;    // 0: the faults of every queue pair
  bool data = true;         // changes faults of what programs send
  bool cm = false;          // changes faults of what connection management sends
  bool clear = false;       // removes faults and rules instead, or `rules` alone if there are any
  std::uint32_t named = 0;  // FaultField
  FaultValues values;
  std::uint64_t seed = 0;
  std::vector<std::string> rules;
  VERBENA_MESSAGE(kChangeFault) {
    a(m.device, m.qpn, m.data, m.cm, m.clear, m.named, m.values, m.seed, m.rules);
  }
};

// The daemon's answer, once the change is in force in every process that has the device open. It
// names the processes that have not confirmed the change in time.
struct FaultChanged {
  bool has_seed = false;  // false: no fault is left, or what was changed has several seeds
  std::uint64_t seed = 0;
  SilentProcesses silent;
  VERBENA_MESSAGE(kFaultChanged) { a(m.has_seed, m.seed, m.silent); }
};

}  // namespace verbena::control
