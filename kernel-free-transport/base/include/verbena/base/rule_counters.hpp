// SPDX-License-Identifier: BSD-2-Clause
// What a rule of a scripted fault has done to packets, as `verbena status` shows it. The counters
// are plain numbers, may be in memory that another process reads, and have one writer at a time.
#pragma once

#include <cstdint>

#include "verbena/base/lock.hpp"

namespace verbena {

class RuleCounters {
 public:
  void match() noexcept { matched_.add(); }
  void fire() noexcept { fired_.add(); }
  std::uint64_t matched() const noexcept { return matched_.read(); }
  std::uint64_t fired() const noexcept { return fired_.read(); }
  void reset() noexcept {
    matched_.set(0);
    fired_.set(0);
  }

 private:
  OwnedCounter matched_;  // packets that meet the rule's conditions
  OwnedCounter fired_;    // packets that the rule acted on
};

}  // namespace verbena
