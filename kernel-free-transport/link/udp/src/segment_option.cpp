// SPDX-License-Identifier: BSD-2-Clause
#include "segment_option.hpp"

#include <sys/socket.h>

#include <cerrno>

#include "verbena/link/socket_options.hpp"

namespace verbena::link {

bool SegmentOption::covers(int fd, std::size_t segment_bytes, std::size_t bytes) noexcept {
  const bool is_covered =
      segment_bytes != 0 ? segment_bytes == size_ : size_ == 0 || bytes <= size_;
  if (is_covered) {
    habit_.interrupt();
    return true;
  }
  return may_change_ && is_known_ && habit_.forms(segment_bytes) && set(fd, segment_bytes);
}

void SegmentOption::give_up(int fd) noexcept {
  may_change_ = false;
  if (size_ != 0) set(fd, 0);
}

bool SegmentOption::set(int fd, std::size_t segment_bytes) noexcept {
  const int value = static_cast<int>(segment_bytes);
  const int saved = errno;
  const bool is_set = ::setsockopt(fd, SOL_UDP, UDP_SEGMENT, &value, sizeof value) == 0;
  errno = saved;
  if (is_set) size_ = segment_bytes;
  return is_set;
}

}  // namespace verbena::link
