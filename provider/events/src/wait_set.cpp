// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/events/wait_set.hpp"

#include <sys/epoll.h>

#include <cerrno>
#include <utility>

#include "verbena/base/standard_streams.hpp"

namespace verbena::provider {

bool WaitSet::make(std::initializer_list<Member> members) noexcept {
  const int saved = errno;
  set_.reset(beyond_streams(::epoll_create1(EPOLL_CLOEXEC)));
  for (const auto& [fd, by_edge] : members) {
    epoll_event event{};
    event.events = by_edge ? EPOLLIN | EPOLLET : EPOLLIN;
    event.data.fd = fd;
    if (fd < 0 || !set_) continue;
    if (::epoll_ctl(set_.get(), EPOLL_CTL_ADD, fd, &event) != 0) set_.reset();
  }
  errno = saved;
  return static_cast<bool>(set_);
}

bool WaitSet::admit(const std::array<int, 2>& busy) noexcept {
  waits_without_sleep_ = 0;
  if (busy_ == busy) return true;
  const int saved = errno;
  for (std::size_t i = 0; i < busy.size(); ++i) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = busy[i];
    if (busy_[i] == busy[i] || ::epoll_ctl(set_.get(), EPOLL_CTL_ADD, busy[i], &event) != 0) {
      continue;
    }
    busy_[i] = busy[i];
  }
  errno = saved;
  return busy_ == busy;
}

void WaitSet::note_no_sleep() noexcept {
  if (busy_[0] < 0 || ++waits_without_sleep_ < kWaitsWithoutSleep) return;
  const int saved = errno;
  for (int& fd : busy_) {
    if (fd >= 0) ::epoll_ctl(set_.get(), EPOLL_CTL_DEL, std::exchange(fd, -1), nullptr);
  }
  errno = saved;
}

}  // namespace verbena::provider
