// SPDX-License-Identifier: BSD-2-Clause
#include "announcements.hpp"

#include "objects.hpp"

namespace verbena::provider {

void write_completion_event(Cq& cq) noexcept {
  const CompletionEvent event{reinterpret_cast<std::uintptr_t>(&cq.abi.cq)};
  if (cq.channel->pipe.write(event)) cq.completion_events.fetch_add(1);
}

void Announcements::announce(Cq& cq) noexcept {
  const bool is_in_round = collector_.load(std::memory_order_relaxed) == ::pthread_self();
  if (!is_in_round || count_ == kMost) return write_completion_event(cq);
  waiting_[count_++] = &cq;
}

void Announcements::end_round(Lock& receive_lock) noexcept {
  collector_.store({}, std::memory_order_relaxed);
  if (count_ == 0) return receive_lock.unlock();
  const Guard guard(writing_);
  const std::array<Cq*, kMost> fired = waiting_;
  const std::size_t count = count_;
  count_ = 0;
  receive_lock.unlock();
  for (std::size_t i = 0; i < count; ++i) write_completion_event(*fired[i]);
}

void Announcements::await_written(Lock& receive_lock) noexcept {
  { const Guard guard(receive_lock); }
  { const Guard guard(writing_); }
}

}  // namespace verbena::provider
