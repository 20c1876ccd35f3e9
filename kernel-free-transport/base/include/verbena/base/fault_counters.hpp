// SPDX-License-Identifier: BSD-2-Clause
// What an injected fault has done to packets, as `verbena status` shows it. The counters are plain
// numbers and may be in memory that another process reads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "verbena/base/lock.hpp"

namespace verbena {

// X(enumerator, name as printed)
#define VERBENA_FAULT_COUNTERS(X)                           \
  X(kPackets, "packets") /* all that the fault judged */    \
  X(kLost, "lost")                                          \
  X(kLostRequests, "lost_requests") /* among the lost */    \
  X(kDuplicated, "duplicated")                              \
  X(kReordered, "reordered")                                \
  X(kCorrupted, "corrupted")                                \
  X(kDelayed, "delayed")          /* by delay and jitter */ \
  X(kRateLimited, "rate_limited") /* held back by the rate */

enum class FaultCounter : std::uint8_t {
#define VERBENA_FAULT_COUNTER_ENUM(id, text) id,
  VERBENA_FAULT_COUNTERS(VERBENA_FAULT_COUNTER_ENUM)
#undef VERBENA_FAULT_COUNTER_ENUM
};

inline constexpr std::array kFaultCounterNames{
#define VERBENA_FAULT_COUNTER_NAME(id, text) std::string_view{text},
    VERBENA_FAULT_COUNTERS(VERBENA_FAULT_COUNTER_NAME)
#undef VERBENA_FAULT_COUNTER_NAME
};
inline constexpr std::size_t kFaultCounters = kFaultCounterNames.size();

// One thread at a time may write.
class FaultCounters {
 public:
  void count(FaultCounter c) noexcept { counters_[static_cast<std::size_t>(c)].add(); }
  std::uint64_t read(FaultCounter c) const noexcept {
    return counters_[static_cast<std::size_t>(c)].read();
  }
  void reset() noexcept {
    for (OwnedCounter& counter : counters_) counter.set(0);
  }

 private:
  std::array<OwnedCounter, kFaultCounters> counters_;
};

}  // namespace verbena
