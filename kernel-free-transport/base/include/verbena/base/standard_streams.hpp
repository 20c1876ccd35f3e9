// SPDX-License-Identifier: BSD-2-Clause
// Keeps our descriptors away from the numbers of the standard streams. A process may start with
// closed streams. A file that we open then gets such a number, and lines that the program prints go
// into it: a line on standard error would go to the daemon as a message. Therefore our code in a
// program's process calls beyond_streams for each descriptor that it makes, and our own commands
// fill the closed streams when they start. Any thread.
//
// The functions are inline because the engine's archives, which include this room, make no system
// calls.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace verbena {

// Returns the descriptor under a number above the standard streams, with close-on-exec if it had to
// be moved. Returns -1 and errno, with the descriptor closed, if no number is left. Passes on a
// negative `fd`, with errno.
inline int beyond_streams(int fd) noexcept {
  if (fd < 0 || fd > STDERR_FILENO) [[likely]]
    return fd;
  const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int code = errno;
  ::close(fd);
  errno = code;
  return moved;
}

// Moves both descriptors. Returns false and errno, with both closed, if no number is left.
inline bool beyond_streams(int (&pair)[2]) noexcept {
  for (int& fd : pair) fd = beyond_streams(fd);
  if (pair[0] >= 0 && pair[1] >= 0) return true;
  const int code = errno;
  for (const int fd : pair) {
    if (fd >= 0) ::close(fd);
  }
  errno = code;
  return false;
}

// Opens something without content at each standard stream that is closed. A program that this
// process executes finds the stream closed as before.
inline void fill_closed_streams() noexcept {
  int fd = -1;
  do {
    fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) ::close(fd);
}

}  // namespace verbena
