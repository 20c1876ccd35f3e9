// SPDX-License-Identifier: BSD-2-Clause
// How a sleeping reader of rings is woken: by a local socket that nothing is ever sent through. Its
// peers get the other end of it through the emulator, with their rings. To shut that end down wakes
// whoever watches this one, each time anew; it needs no room, leaves nothing behind that had to be
// read, and is over once it is done for good: so whatever a peer does with its copy (fill it, drain
// it, shut it down, close it) makes nobody wait, and wakes at most. A handle that is something else
// says so, and there are datagrams.
#pragma once

namespace verbena::link {

// A peer's end. Owns a descriptor; -1 is no handle.
class WakerHandle {
 public:
  WakerHandle() = default;
  explicit WakerHandle(int fd) noexcept;
  WakerHandle(WakerHandle&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  WakerHandle& operator=(WakerHandle&& other) noexcept;
  ~WakerHandle();

  int fd() const noexcept { return fd_; }
  // False: nobody can be woken by it.
  bool wake() const noexcept;

 private:
  int fd_ = -1;
};

// The sleeper's. Where no descriptors are left, or where the kernel wakes nobody in this way, it
// has no ends, and there is no handle.
class RingWaker {
 public:
  RingWaker() noexcept;
  RingWaker(const RingWaker&) = delete;
  ~RingWaker();

  // Readable after a wake, until silence() was called.
  int fd() const noexcept { return set_; }
  // For an epoll that looks for edges: each wake is one. Nothing is to be silenced.
  int edges() const noexcept { return end_; }
  // For others to have copies of.
  int handle() const noexcept { return handle_.fd(); }
  // True: somebody has woken it since the last time.
  bool silence() const noexcept;

 private:
  bool make() noexcept;
  void drop() noexcept;

  int end_ = -1;
  int set_ = -1;  // an epoll with that end alone
  WakerHandle handle_;
};

}  // namespace verbena::link
