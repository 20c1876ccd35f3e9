// SPDX-License-Identifier: BSD-2-Clause
// The file, or the pipe, that a capture is written to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace verbena::capture {

class Output {
 public:
  // `fd` stays the caller's.
  explicit Output(int fd);

  int fd() const { return fd_; }
  bool is_file() const { return is_file_; }

  struct Written {
    std::size_t bytes = 0;
    int error = 0;  // errno; EPIPE: nobody reads any more
  };
  // A file takes all or fails. Anything else takes what it can without making us wait, if poll said
  // that it can.
  Written write(std::span<const std::uint8_t> bytes);
  // Takes the last `bytes` back, of a file.
  void take_back(std::size_t bytes);

 private:
  int fd_;
  bool is_file_ = false;
};

}  // namespace verbena::capture
