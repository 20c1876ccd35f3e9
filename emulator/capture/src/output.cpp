// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/capture/output.hpp"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace verbena::capture {

Output::Output(int fd) : fd_(fd) {
  struct stat status {};
  is_file_ = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

Output::Written Output::write(std::span<const std::uint8_t> bytes) {
  // A writable pipe has room for PIPE_BUF bytes.
  const std::size_t most = is_file_ ? bytes.size() : std::min<std::size_t>(bytes.size(), PIPE_BUF);
  Written written;
  while (written.bytes < most) {
    const ssize_t n = ::write(fd_, bytes.data() + written.bytes, most - written.bytes);
    if (n > 0) written.bytes += static_cast<std::size_t>(n);
    if (n < 0 && errno != EINTR && errno != EAGAIN) {
      written.error = errno;
      break;
    }
    if (!is_file_) break;
  }
  return written;
}

void Output::take_back(std::size_t bytes) {
  const off_t end = ::lseek(fd_, 0, SEEK_END);
  if (end < static_cast<off_t>(bytes)) return;
  (void)!::ftruncate(fd_, end - static_cast<off_t>(bytes));
  (void)::lseek(fd_, 0, SEEK_END);
}

}  // namespace verbena::capture
