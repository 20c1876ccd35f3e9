#include "wait_set.hpp"

#include <sys/epoll.h>

#include <cerrno>

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

}  // namespace verbena::provider
