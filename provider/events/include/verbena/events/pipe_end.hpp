// SPDX-License-Identifier: BSD-2-Clause
// Our end of a pipe from which libibverbs reads events. Records are written and taken back by it.
// Neither ever waits, whatever flags the program has set on its own descriptor.
//
// Usually our end is the same pipe, opened anew by /proc/self/fd. After chroot() there may be no
// /proc. Then our end is a duplicate of the program's descriptor, and each call says that it must
// not wait. That descriptor is a pipe that the program has had before, or a datagram socket that is
// connected to itself: the preload library makes such a socket in place of a pipe that it cannot
// open anew. The socket keeps the borders of records, and a read takes one of them.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "verbena/control/unique_fd.hpp"

namespace verbena::provider {

class PipeEnd {
 public:
  // `fd` is the program's descriptor. Returns an errno.
  int open(int fd) noexcept;
  // Both return -EAGAIN if the call would wait. A write takes all bytes or none.
  ssize_t write(const void* bytes, std::size_t size) const noexcept;
  ssize_t read(void* room, std::size_t size) const noexcept;
  // Enlarges a pipe to the most that users may ask for by default. Returns false if it stays.
  bool grow() const noexcept;
  // Returns how many bytes can be read. Of a socket, only its first record is counted.
  std::size_t size() const noexcept;
  // Returns whether one write must hold one record.
  bool is_socket() const noexcept { return way_ == Way::kSocket; }

  int get() const noexcept { return fd_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  void reset() noexcept { fd_.reset(); }
  void release() noexcept { fd_.release(); }

 private:
  enum class Way { kOpenedAnew, kSharedPipe, kSocket };

  control::UniqueFd fd_;
  Way way_ = Way::kOpenedAnew;
};

// Opens another file description of the pipe that a descriptor of this process leads to. Returns a
// descriptor or a negative errno.
int open_pipe_anew(int fd, int flags) noexcept;

}  // namespace verbena::provider
