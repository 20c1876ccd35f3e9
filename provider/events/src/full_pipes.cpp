// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/events/full_pipes.hpp"

#include <sys/epoll.h>

#include <array>
#include <cerrno>

#include "verbena/base/standard_streams.hpp"
#include "verbena/events/event_pipe.hpp"

namespace verbena::provider {

// Has the pipe reported only once: a pipe that holds nothing back always has room.
void FullPipes::await_room(EventPipe& pipe) noexcept {
  epoll_event event{};
  event.events = EPOLLOUT | EPOLLONESHOT;
  event.data.ptr = &pipe;
  if (::epoll_ctl(set_.get(), EPOLL_CTL_MOD, pipe.write_end(), &event) == 0) return;
  ::epoll_ctl(set_.get(), EPOLL_CTL_ADD, pipe.write_end(), &event);
}

// If no descriptor is left for the set, the reader's next calls of libibverbs fill the pipe.
void FullPipes::add(EventPipe& pipe) noexcept {
  const int saved = errno;
  {
    const std::lock_guard guard(lock_);
    if (!set_) {
      set_.reset(beyond_streams(::epoll_create1(EPOLL_CLOEXEC)));
      fd_.publish(set_.get());
    }
    if (set_) await_room(pipe);
  }
  filler_.kick();
  errno = saved;
}

void FullPipes::remove(EventPipe& pipe) noexcept {
  const int saved = errno;
  const std::lock_guard guard(lock_);
  if (set_) ::epoll_ctl(set_.get(), EPOLL_CTL_DEL, pipe.write_end(), nullptr);
  errno = saved;
}

void FullPipes::fill() noexcept {
  const std::lock_guard guard(lock_);
  std::array<epoll_event, 16> ready;
  const int count = ::epoll_wait(set_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < count; ++i) {
    auto& pipe = *static_cast<EventPipe*>(ready[static_cast<std::size_t>(i)].data.ptr);
    pipe.fill();
    if (pipe.holds_any()) await_room(pipe);
  }
}

}  // namespace verbena::provider
