// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/events/announcements.hpp"

#include <algorithm>

namespace verbena::provider {
namespace {

void write(const Announcements::Announcement& a) noexcept {
  if (a.pipe->write(a.event)) a.written->fetch_add(1);
}

}  // namespace

void Announcements::announce(const Announcement& a) noexcept {
  const bool is_in_round = collector_.load(std::memory_order_relaxed) == ::pthread_self();
  if (!is_in_round || count_ == kMost) return write(a);
  waiting_[count_++] = a;
}

void Announcements::end_round(Lock& receive_lock) noexcept {
  collector_.store({}, std::memory_order_relaxed);
  if (count_ == 0) return receive_lock.unlock();
  const Guard guard(writing_);
  std::array<Announcement, kMost> fired;
  const std::size_t count = count_;
  std::copy_n(waiting_.begin(), count, fired.begin());
  count_ = 0;
  receive_lock.unlock();
  for (std::size_t i = 0; i < count; ++i) write(fired[i]);
}

void Announcements::await_written(Lock& receive_lock) noexcept {
  { const Guard guard(receive_lock); }
  { const Guard guard(writing_); }
}

}  // namespace verbena::provider
