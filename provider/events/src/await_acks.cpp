// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/events/await_acks.hpp"

namespace verbena::provider {
namespace {

std::uint32_t missing(const AwaitedAcks& acks) {
  ::pthread_mutex_lock(acks.mutex);
  const std::uint32_t count = acks.delivered - *acks.acknowledged;
  ::pthread_mutex_unlock(acks.mutex);
  return count;
}

void wait(const AwaitedAcks& acks) {
  const auto is_missing = [&] { return *acks.acknowledged != acks.delivered; };
  timespec soon{};
  (void)::clock_gettime(CLOCK_REALTIME, &soon);
  ++soon.tv_sec;
  ::pthread_mutex_lock(acks.mutex);
  while (is_missing() && ::pthread_cond_timedwait(acks.cond, acks.mutex, &soon) == 0) {
  }
  if (is_missing()) {
    explain("%s waits: %s has given %u events of this object, %s has acknowledged %u",
            acks.verbs.waits, acks.verbs.gives, acks.delivered, acks.verbs.acknowledges,
            *acks.acknowledged);
  }
  while (is_missing()) ::pthread_cond_wait(acks.cond, acks.mutex);
  ::pthread_mutex_unlock(acks.mutex);
}

}  // namespace

void AckWaits::await(AwaitedAcks acks) noexcept {
  if (missing(acks) == 0) return;
  {
    const std::lock_guard guard(lock_);
    acks.next = first_;
    first_ = &acks;
  }
  wait(acks);
  const std::lock_guard guard(lock_);
  AwaitedAcks** place = &first_;
  while (*place != &acks) place = &(*place)->next;
  *place = acks.next;
}

std::vector<MissingAcks> AckWaits::waiting(std::size_t most) {
  std::vector<MissingAcks> all;
  const std::lock_guard guard(lock_);
  for (const AwaitedAcks* acks = first_; acks != nullptr && all.size() < most; acks = acks->next) {
    const std::uint32_t count = missing(*acks);
    if (count == 0) continue;  // it is about to go on
    all.push_back({acks->verbs, acks->number, acks->delivered, count});
  }
  return all;
}

}  // namespace verbena::provider
