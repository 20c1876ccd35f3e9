// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/link/ring_waker.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "verbena/base/standard_streams.hpp"
#include "verbena/link/system_calls.hpp"

namespace verbena::link {
namespace {

int option_of(int fd, int option) noexcept {
  int value = -1;
  socklen_t size = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

}  // namespace

// The descriptor comes from a peer, so its kind is checked: shutdown() of other sockets may wait
// for locks that others hold for long.
WakerHandle::WakerHandle(int fd) noexcept : fd_(fd) {
  const int saved = errno;
  if (fd_ >= 0 &&
      (option_of(fd_, SO_DOMAIN) != AF_UNIX || option_of(fd_, SO_TYPE) != SOCK_STREAM)) {
    ::close(std::exchange(fd_, -1));
  }
  errno = saved;
}

WakerHandle& WakerHandle::operator=(WakerHandle&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

WakerHandle::~WakerHandle() {
  if (fd_ >= 0) ::close(fd_);
}

bool WakerHandle::wake() const noexcept {
  if (fd_ < 0) return false;
  const int saved = errno;
  const bool rings = ::shutdown(fd_, SHUT_WR) == 0;
  errno = saved;
  return rings;
}

RingWaker::RingWaker() noexcept {
  const int saved = errno;
  if (!make()) drop();
  errno = saved;
}

RingWaker::~RingWaker() { drop(); }

// Tries two wake-ups, because no document promises that a second shutdown() wakes like the first.
bool RingWaker::make() noexcept {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0 || !beyond_streams(ends)) {
    return false;
  }
  end_ = ends[0];
  handle_ = WakerHandle(ends[1]);
  set_ = beyond_streams(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  if (set_ < 0 || ::epoll_ctl(set_, EPOLL_CTL_ADD, end_, &event) != 0) return false;
  for (int i = 0; i < 2; ++i) {
    if (silence() || !handle_.wake() || !silence()) return false;
  }
  return true;
}

void RingWaker::drop() noexcept {
  for (int* fd : {&end_, &set_}) {
    if (*fd >= 0) ::close(std::exchange(*fd, -1));
  }
  handle_ = WakerHandle();
}

bool RingWaker::silence() const noexcept {
  if (set_ < 0) return false;
  epoll_event event;
  return look_at(set_, event) == 1;
}

}  // namespace verbena::link
