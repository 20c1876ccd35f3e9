#include "wait_set.hpp"

#include <sys/epoll.h>

#include <cerrno>
#include <utility>

namespace verbena::provider {

bool WaitSet::make(std::initializer_list<Member> members) noexcept {
  const int saved = errno;
  set_.reset(::epoll_create1(EPOLL_CLOEXEC));
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

bool WaitSet::admit(int fd) noexcept {
  waits_without_sleep_ = 0;
  if (busy_ >= 0) return true;
  const int saved = errno;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(set_.get(), EPOLL_CTL_ADD, fd, &event) == 0) busy_ = fd;
  errno = saved;
  return busy_ >= 0;
}

void WaitSet::note_no_sleep() noexcept {
  if (busy_ < 0 || ++waits_without_sleep_ < kWaitsWithoutSleep) return;
  const int saved = errno;
  ::epoll_ctl(set_.get(), EPOLL_CTL_DEL, std::exchange(busy_, -1), nullptr);
  errno = saved;
}

}  // namespace verbena::provider
