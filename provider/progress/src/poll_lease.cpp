// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/progress/poll_lease.hpp"

#include <sys/timerfd.h>

#include <cerrno>

#include "verbena/base/standard_streams.hpp"

namespace verbena::provider {

int PollLease::open() noexcept {
  timer_.reset(beyond_streams(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)));
  return timer_ ? 0 : errno;
}

void PollLease::put_off(TimeNs now) noexcept {
  renewal_.store(now + kRenewal, std::memory_order_relaxed);
  const itimerspec after{{}, {0, static_cast<long>(kAfter)}};
  ::timerfd_settime(timer_.get(), 0, &after, nullptr);
}

}  // namespace verbena::provider
