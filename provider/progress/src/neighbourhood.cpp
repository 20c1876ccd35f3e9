// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/progress/neighbourhood.hpp"

#include <algorithm>
#include <mutex>

#include "verbena/progress/times.hpp"

namespace verbena::provider {
void Neighbourhood::look_at_each(Undriven which) noexcept {
  const std::unique_lock guard(lock_, std::try_to_lock);
  if (!guard.owns_lock()) return;
  for (Seen& seen : all_) {
    if (--seen.looks_left != 0 && which == Undriven::kParked) continue;
    const bool is_undriven = seen.neighbour->drive_undriven(which, seen.polls_seen);
    seen.interval = is_undriven ? 1 : std::min(2 * seen.interval, times::kNeighbourLooksMost);
    seen.looks_left = seen.interval;
  }
}

void Neighbourhood::reserve(std::size_t count) {
  const Guard guard(lock_);
  if (count > all_.capacity()) all_.reserve(std::max(count, 2 * all_.capacity()));
}

void Neighbourhood::add(Neighbour& neighbour) noexcept {
  const Guard guard(lock_);
  all_.push_back({&neighbour});
  is_empty_.store(false, std::memory_order_relaxed);
}

void Neighbourhood::remove(const Neighbour& neighbour) noexcept {
  const Guard guard(lock_);
  std::erase_if(all_, [&](const Seen& seen) { return seen.neighbour == &neighbour; });
  is_empty_.store(all_.empty(), std::memory_order_relaxed);
}

}  // namespace verbena::provider
