// System calls of the data path. Those of the C library would be points at which a cancelled thread
// ends, within a verb that is none on any adapter and holds locks; these are not. They leave errno
// as the C library's do.
#pragma once

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace verbena::link {

inline ssize_t send_to(int fd, std::span<const std::uint8_t> bytes, int flags,
                       const sockaddr* address, socklen_t address_size) noexcept {
  return ::syscall(SYS_sendto, fd, bytes.data(), bytes.size(), flags, address, address_size);
}

inline ssize_t send_message(int fd, const msghdr& message, int flags) noexcept {
  return ::syscall(SYS_sendmsg, fd, &message, flags);
}

inline ssize_t receive_from(int fd, std::span<std::uint8_t> room, int flags, sockaddr* address,
                            socklen_t* address_size) noexcept {
  return ::syscall(SYS_recvfrom, fd, room.data(), room.size(), flags, address, address_size);
}

inline ssize_t receive_message(int fd, msghdr& message, int flags) noexcept {
  return ::syscall(SYS_recvmsg, fd, &message, flags);
}

inline int open_file(const char* path, int flags) noexcept {
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags));
}

inline ssize_t write_bytes(int fd, const void* bytes, std::size_t size) noexcept {
  return ::syscall(SYS_write, fd, bytes, size);
}

inline ssize_t read_bytes(int fd, void* bytes, std::size_t size) noexcept {
  return ::syscall(SYS_read, fd, bytes, size);
}

// How many of an epoll's descriptors are readable now: one at most, which is `event`.
inline int look_at(int epoll_fd, epoll_event& event) noexcept {
  return static_cast<int>(::syscall(SYS_epoll_pwait, epoll_fd, &event, 1, 0, nullptr, 0));
}

}  // namespace verbena::link
