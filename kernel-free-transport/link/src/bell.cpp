#include "verbena/link/bell.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "verbena/link/system_calls.hpp"

namespace verbena::link {

BellRope& BellRope::operator=(BellRope&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

BellRope::~BellRope() {
  if (fd_ >= 0) ::close(fd_);
}

bool BellRope::pull() const noexcept {
  if (fd_ < 0) return false;
  const int saved = errno;
  constexpr std::uint8_t kByte[1] = {};
  // One whose queue is full rings already.
  const bool rings =
      send_to(fd_, kByte, MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0) == 1 || errno == EAGAIN;
  errno = saved;
  return rings;
}

Bell::Bell() noexcept {
  const int saved = errno;
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) == 0) {
    fd_ = ends[0];
    rope_ = BellRope(ends[1]);
  }
  errno = saved;
}

Bell::~Bell() {
  if (fd_ >= 0) ::close(fd_);
}

void Bell::silence() const noexcept {
  if (fd_ < 0) return;
  const int saved = errno;
  std::uint8_t byte[1];
  iovec part{byte, sizeof byte};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  // What others sent besides wakes the next sleep for nothing, which is seldom.
  receive_message(fd_, message, MSG_DONTWAIT);
  errno = saved;
}

}  // namespace verbena::link
