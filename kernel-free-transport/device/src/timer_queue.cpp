// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/device/timer_queue.hpp"

#include <algorithm>

namespace verbena::device {

bool TimerQueue::add(TimeNs deadline, Qpn number) {
  const Guard guard(lock_);
  heap_.push_back({deadline, number});
  std::push_heap(heap_.begin(), heap_.end(), Later{});
  const bool first = heap_.front().deadline < earliest_.read_relaxed();
  earliest_.publish(heap_.front().deadline);
  return first;
}

std::optional<TimerQueue::Entry> TimerQueue::take_expired(TimeNs now) {
  if (earliest_.read_relaxed() > now) return std::nullopt;
  const Guard guard(lock_);
  if (heap_.empty() || heap_.front().deadline > now) return std::nullopt;
  std::pop_heap(heap_.begin(), heap_.end(), Later{});
  const Entry entry = heap_.back();
  heap_.pop_back();
  earliest_.publish(heap_.empty() ? kNever : heap_.front().deadline);
  return entry;
}

}  // namespace verbena::device
