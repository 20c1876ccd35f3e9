// SPDX-License-Identifier: BSD-2-Clause
// The size that a socket's sends are cut into by the kernel unless they say another. A send that
// need not say it costs a twentieth less, but the option is the whole socket's: whoever sends
// without saying a size holds the lock under which the option changes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "habit.hpp"

namespace verbena::link {

class SegmentOption {
 public:
  // Of a socket that has just been made.
  void open(int fd) noexcept { is_known_ = set(fd, 0); }
  // A kernel that knows no such sizes (before 4.18) is told none.
  bool is_known() const noexcept { return is_known_; }

  // Whether `bytes`, in segments of `segment_bytes` or (0) as one packet, are sent so by a call
  // that names no size. The option follows what is sent again and again.
  bool covers(int fd, std::size_t segment_bytes, std::size_t bytes) noexcept;
  // Whether it cuts anything.
  bool is_set() const noexcept { return size_ != 0; }
  // What was sent so was refused, which may be the option's doing.
  void give_up(int fd) noexcept;

 private:
  [[gnu::cold]] bool set(int fd, std::size_t segment_bytes) noexcept;

  bool is_known_ = false;
  bool may_change_ = true;
  std::size_t size_ = 0;
  Habit<std::size_t> habit_;
};

}  // namespace verbena::link
