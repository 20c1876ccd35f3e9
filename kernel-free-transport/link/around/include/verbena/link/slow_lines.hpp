// SPDX-License-Identifier: BSD-2-Clause
// When lines that have a speed (rate= of a rule, --rate) have carried the packets that were sent
// before. A link has a SlowLine for each queue pair that has a speed of its own, under its lock.
// The links of all engines of a context share the other lines, SlowLines, so that together they do
// not send faster than one engine; any thread may call those.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "verbena/base/lock.hpp"
#include "verbena/base/types.hpp"

namespace verbena::link {

class SlowLine {
 public:
  // Returns how long until the line has carried a packet of so many bytes and those before it. If
  // the speed has changed, the packets before it do not count: those that still wait are counted
  // anew (FaultLink::set_rules).
  TimeNs wait_for(std::size_t bytes, std::uint64_t bytes_per_second, TimeNs now) noexcept {
    if (bytes_per_second != bytes_per_second_) free_ = now;
    bytes_per_second_ = bytes_per_second;
    free_ = std::max(free_, now) + bytes * 1'000'000'000u / bytes_per_second;
    return free_ - now;
  }

 private:
  TimeNs free_ = 0;
  std::uint64_t bytes_per_second_ = 0;
};

class SlowLines {
 public:
  // Do what SlowLine::wait_for() does: wait_for_rule() for the line of the rule with this id,
  // wait_for_all() for that of all packets without a rule.
  TimeNs wait_for_rule(std::uint64_t rule, std::size_t bytes, std::uint64_t bytes_per_second,
                       TimeNs now) {
    const Guard guard(lock_);
    return of_rules_[rule].wait_for(bytes, bytes_per_second, now);
  }
  TimeNs wait_for_all(std::size_t bytes, std::uint64_t bytes_per_second, TimeNs now) noexcept {
    const Guard guard(lock_);
    return general_.wait_for(bytes, bytes_per_second, now);
  }

 private:
  Lock lock_;
  SlowLine general_;
  std::unordered_map<std::uint64_t, SlowLine> of_rules_;
};

}  // namespace verbena::link
