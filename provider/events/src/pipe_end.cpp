// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/events/pipe_end.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <span>

#include "verbena/base/standard_streams.hpp"
#include "verbena/link/system_calls.hpp"

namespace verbena::provider {
namespace {

constexpr int kLargestPipe = 1 << 20;

bool has_room(int fd) noexcept {
  pollfd wanted{fd, POLLOUT, 0};
  const timespec now{0, 0};
  return link::call_kernel(SYS_ppoll, &wanted, 1, &now, nullptr, 0) == 1 &&
         (wanted.revents & POLLOUT) != 0;
}

// Reads from a pipe whose descriptor may wait, by way of another pipe: only splice() can be told
// not to wait. Without descriptors for the other pipe, nothing is read.
ssize_t read_at_once(int fd, void* room, std::size_t size) noexcept {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0 || !beyond_streams(ends)) return -EAGAIN;
  const control::UniqueFd out(ends[0]), in(ends[1]);
  const long moved = link::call_kernel(SYS_splice, fd, nullptr, in.get(), nullptr, size,
                                       static_cast<unsigned>(SPLICE_F_NONBLOCK));
  return moved > 0 ? link::read_bytes(out.get(), room, size) : moved;
}

}  // namespace

int open_pipe_anew(int fd, int flags) noexcept {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return link::open_file(path, flags | O_NONBLOCK | O_CLOEXEC);
}

int PipeEnd::open(int fd) noexcept {
  const int opened = open_pipe_anew(fd, O_RDWR);
  if (opened >= 0) {
    fd_.reset(opened);
    way_ = Way::kOpenedAnew;
    return 0;
  }
  struct stat status {};
  const bool is_no_descriptor_left = opened == -EMFILE || opened == -ENFILE;
  if (is_no_descriptor_left || ::fstat(fd, &status) != 0) return -opened;
  if (!S_ISFIFO(status.st_mode) && !S_ISSOCK(status.st_mode)) return -opened;
  const int duplicate = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (duplicate < 0) return errno;
  fd_.reset(duplicate);
  way_ = S_ISSOCK(status.st_mode) ? Way::kSocket : Way::kSharedPipe;
  return 0;
}

// Only the caller writes to a shared pipe. So the room that it has found is still there when it
// writes, if a record is no longer than the page that a pipe with room has.
ssize_t PipeEnd::write(const void* bytes, std::size_t size) const noexcept {
  if (way_ == Way::kSocket) {
    const std::span record(static_cast<const std::uint8_t*>(bytes), size);
    return link::send_to(fd_.get(), record, MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0);
  }
  if (way_ == Way::kSharedPipe && !has_room(fd_.get())) return -EAGAIN;
  return link::write_bytes(fd_.get(), bytes, size);
}

ssize_t PipeEnd::read(void* room, std::size_t size) const noexcept {
  if (way_ == Way::kSocket) {
    const std::span whole(static_cast<std::uint8_t*>(room), size);
    return link::receive_from(fd_.get(), whole, MSG_DONTWAIT, nullptr, nullptr);
  }
  if (way_ == Way::kSharedPipe) return read_at_once(fd_.get(), room, size);
  return link::read_bytes(fd_.get(), room, size);
}

bool PipeEnd::grow() const noexcept {
  return link::call_kernel(SYS_fcntl, fd_.get(), F_SETPIPE_SZ, kLargestPipe) > 0;
}

std::size_t PipeEnd::size() const noexcept {
  int waiting = 0;
  if (::ioctl(fd_.get(), FIONREAD, &waiting) != 0 || waiting < 0) return 0;
  return static_cast<std::size_t>(waiting);
}

}  // namespace verbena::provider
