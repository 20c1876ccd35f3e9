// How a sleeping reader of rings is woken: by a local socket, which costs a third of a datagram on
// loopback. Its peers get the other end of it through the emulator, with their rings. What one of
// them does with that end makes nobody wait: a rope that is cut says so, and there are datagrams.
#pragma once

namespace verbena::link {

// A peer's end. Owns a descriptor; -1 is no rope.
class BellRope {
 public:
  BellRope() = default;
  explicit BellRope(int fd) noexcept : fd_(fd) {}
  BellRope(BellRope&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  BellRope& operator=(BellRope&& other) noexcept;
  ~BellRope();

  int fd() const noexcept { return fd_; }
  // False: it cannot be rung.
  bool pull() const noexcept;

 private:
  int fd_ = -1;
};

// The sleeper's. Where no descriptors are left it has no ends, and nobody can ring it.
class Bell {
 public:
  Bell() noexcept;
  Bell(const Bell&) = delete;
  ~Bell();

  // Readable after a pull, until silence() was called for it.
  int fd() const noexcept { return fd_; }
  // For others to have copies of.
  int rope() const noexcept { return rope_.fd(); }
  void silence() const noexcept;

 private:
  int fd_ = -1;
  BellRope rope_;
};

}  // namespace verbena::link
