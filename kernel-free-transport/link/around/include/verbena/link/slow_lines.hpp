// SPDX-License-Identifier: BSD-2-Clause
// When lines that have a speed (rate= of a rule, --rate) have carried the packets that were sent
// before. The links of all engines of a context share these lines, so that together they do not
// send faster than one engine. Any thread may call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "verbena/base/lock.hpp"
#include "verbena/base/types.hpp"

namespace verbena::link {

class SlowLines {
 public:
  // Return how long until the line has carried a packet of so many bytes and those before it.
  // wait_for_rule() is about the line of the rule with this id, wait_for_all() about that of all
  // packets without a rule.
  TimeNs wait_for_rule(std::uint64_t rule, std::size_t bytes, std::uint64_t bytes_per_second,
                       TimeNs now) {
    const Guard guard(lock_);
    return wait_for(of_rules_[rule], bytes, bytes_per_second, now);
  }
  TimeNs wait_for_all(std::size_t bytes, std::uint64_t bytes_per_second, TimeNs now) noexcept {
    const Guard guard(lock_);
    return wait_for(general_, bytes, bytes_per_second, now);
  }

  // Does the same for a line that is not shared. `free` is when it has carried what was sent.
  static TimeNs wait_for(TimeNs& free, std::size_t bytes, std::uint64_t bytes_per_second,
                         TimeNs now) noexcept {
    free = std::max(free, now) + bytes * 1'000'000'000u / bytes_per_second;
    return free - now;
  }

 private:
  Lock lock_;
  TimeNs general_ = 0;
  std::unordered_map<std::uint64_t, TimeNs> of_rules_;
};

}  // namespace verbena::link
