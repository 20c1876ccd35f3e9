// SPDX-License-Identifier: BSD-2-Clause
// How a sleeping reader of rings is woken: by a local socket that nothing is ever sent through. Its
// peers get the other end of it through the emulator, with their rings. To shut that end down wakes
// whoever watches this one, each time anew; it needs no room, leaves nothing behind that had to be
// read, and is over once it is done for good: so whatever a peer does with its copy (fill it, drain
// it, shut it down, close it) makes nobody wait, and rings at most. A rope that is something else
// says so, and there are datagrams.
#pragma once

namespace verbena::link {

// A peer's end. Owns a descriptor; -1 is no rope.
class BellRope {
 public:
  BellRope() = default;
  explicit BellRope(int fd) noexcept;
  BellRope(BellRope&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  BellRope& operator=(BellRope&& other) noexcept;
  ~BellRope();

  int fd() const noexcept { return fd_; }
  // False: it cannot be rung.
  bool pull() const noexcept;

 private:
  int fd_ = -1;
};

// The sleeper's. Where no descriptors are left, or where the kernel wakes nobody in this way, it
// has no ends, and nobody can ring it.
class Bell {
 public:
  Bell() noexcept;
  Bell(const Bell&) = delete;
  ~Bell();

  // Readable after a pull, until silence() was called.
  int fd() const noexcept { return set_; }
  // For an epoll that looks for edges: each pull is one. Nothing is to be silenced.
  int edges() const noexcept { return end_; }
  // For others to have copies of.
  int rope() const noexcept { return rope_.fd(); }
  // True: somebody has pulled since the last time.
  bool silence() const noexcept;

 private:
  bool make() noexcept;
  void drop() noexcept;

  int end_ = -1;
  int set_ = -1;  // an epoll with that end alone
  BellRope rope_;
};

}  // namespace verbena::link
