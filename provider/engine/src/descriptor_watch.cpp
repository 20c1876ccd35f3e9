// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/engine/descriptor_watch.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "verbena/base/standard_streams.hpp"

namespace verbena::provider {

int DescriptorWatch::open() noexcept {
  int ends[2];
  if (::pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0 || !beyond_streams(ends)) return errno;
  kept_.reset(ends[0]);
  other_.reset(ends[1]);
  struct stat status {};
  if (::fstat(ends[0], &status) != 0) return errno;
  pipe_ = status.st_ino;
  return 0;
}

bool DescriptorWatch::is_intact() const noexcept {
  return !kept_ || (is_ours(kept_.get()) && is_ours(other_.get()));
}

bool DescriptorWatch::is_ours(int fd) const noexcept {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode) && status.st_ino == pipe_;
}

}  // namespace verbena::provider
