// SPDX-License-Identifier: BSD-2-Clause
// The file or pipe that a capture is written to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace verbena::capture {

class Output {
 public:
  // The caller keeps `fd`.
  explicit Output(int fd);

  int fd() const { return fd_; }
  bool is_file() const { return is_file_; }

  struct Written {
    std::size_t bytes = 0;
    int error = 0;  // errno; EPIPE: the reader is gone
  };
  // Writes. A file takes all bytes or fails. Any other output takes what it can without blocking,
  // if poll() said that it is writable.
  Written write(std::span<const std::uint8_t> bytes);
  // Removes the last `bytes` of a file.
  void take_back(std::size_t bytes);

 private:
  int fd_;
  bool is_file_ = false;
};

}  // namespace verbena::capture
