// SPDX-License-Identifier: BSD-2-Clause
// How a sleeping reader of rings is woken: by a local socket through which nothing is ever sent.
// Its peers get the other end from the emulator, together with their rings. A shutdown() of that
// end wakes the thread that watches this end, each time anew. It needs no buffer space, leaves
// nothing behind to read, and wakes only once per call. So whatever a peer does with its copy (fill
// it, drain it, shut it down, close it) can wake the reader, but makes no thread wait or spin. If a
// handle is not such a socket, wake() returns false, and the writer sends a datagram instead.
#pragma once

namespace verbena::link {

// The peer's end. Owns a descriptor; -1 means that there is no handle.
class WakerHandle {
 public:
  WakerHandle() = default;
  explicit WakerHandle(int fd) noexcept;
  WakerHandle(WakerHandle&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  WakerHandle& operator=(WakerHandle&& other) noexcept;
  ~WakerHandle();

  int fd() const noexcept { return fd_; }
  // Returns false if this handle can wake no reader.
  bool wake() const noexcept;

 private:
  int fd_ = -1;
};

// The sleeping reader's end. If no descriptors are left, or if the kernel does not wake in this
// way, it has no ends and no handle.
class RingWaker {
 public:
  RingWaker() noexcept;
  RingWaker(const RingWaker&) = delete;
  ~RingWaker();

  // Readable after a wake-up, until silence() was called.
  int fd() const noexcept { return set_; }
  // For an epoll that looks for edges: each wake-up is one, and silence() is not needed.
  int edges() const noexcept { return end_; }
  // The descriptor of which the peers get copies.
  int handle() const noexcept { return handle_.fd(); }
  // Makes fd() unreadable again. Returns whether a wake-up came since the last call.
  bool silence() const noexcept;

 private:
  bool make() noexcept;
  void drop() noexcept;

  int end_ = -1;
  int set_ = -1;  // an epoll that watches end_ only
  WakerHandle handle_;
};

}  // namespace verbena::link
