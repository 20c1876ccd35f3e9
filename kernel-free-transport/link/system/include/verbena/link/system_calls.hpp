// SPDX-License-Identifier: BSD-2-Clause
// System calls that bypass the C library. The library's functions are cancellation points: a thread
// would end inside a verb that holds locks and that is no such point on any adapter. They also
// change errno, which verbs leave alone. Other libraries may stand in for them: librspreload makes
// rsockets of sockets, and so calls verbs. Each function returns what the kernel returns: minus the
// errno if it fails.
#pragma once

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "verbena/base/standard_streams.hpp"

namespace verbena::link {

inline long kernel_word(std::integral auto value) noexcept { return static_cast<long>(value); }
inline long kernel_word(const void* value) noexcept { return reinterpret_cast<long>(value); }

template <typename... Words>
requires(sizeof...(Words) <= 6) long call_kernel(long number, Words... words) noexcept {
#if defined(__x86_64__) && defined(__LP64__)
  const long all[6]{kernel_word(words)...};
  register long fourth asm("r10") = all[3];
  register long fifth asm("r8") = all[4];
  register long sixth asm("r9") = all[5];
  long result = number;
  asm volatile("syscall"
               : "+a"(result)
               : "D"(all[0]), "S"(all[1]), "d"(all[2]), "r"(fourth), "r"(fifth), "r"(sixth)
               : "rcx", "r11", "memory");
  return result;
#else
  const int saved = errno;
  const long result = ::syscall(number, kernel_word(words)...);
  const long error = errno;
  errno = saved;
  return result < 0 ? -error : result;
#endif
}

inline ssize_t send_to(int fd, std::span<const std::uint8_t> bytes, int flags,
                       const sockaddr* address, socklen_t address_size) noexcept {
  return call_kernel(SYS_sendto, fd, bytes.data(), bytes.size(), flags, address, address_size);
}

inline ssize_t send_message(int fd, const msghdr& message, int flags) noexcept {
  return call_kernel(SYS_sendmsg, fd, &message, flags);
}

inline ssize_t receive_from(int fd, std::span<std::uint8_t> room, int flags, sockaddr* address,
                            socklen_t* address_size) noexcept {
  return call_kernel(SYS_recvfrom, fd, room.data(), room.size(), flags, address, address_size);
}

inline ssize_t receive_message(int fd, msghdr& message, int flags) noexcept {
  return call_kernel(SYS_recvmsg, fd, &message, flags);
}

// Returns a new descriptor, moved away from the standard streams.
inline int new_descriptor(long number, auto... words) noexcept {
  const int fd = static_cast<int>(call_kernel(number, words...));
  if (fd < 0) return fd;
  const int saved = errno;
  const int moved = beyond_streams(fd);
  const int result = moved >= 0 ? moved : -errno;
  errno = saved;
  return result;
}

inline int open_file(const char* path, int flags) noexcept {
  return new_descriptor(SYS_openat, AT_FDCWD, path, flags);
}

inline int new_socket(int family, int type) noexcept {
  return new_descriptor(SYS_socket, family, type, 0);
}

inline ssize_t write_bytes(int fd, const void* bytes, std::size_t size) noexcept {
  return call_kernel(SYS_write, fd, bytes, size);
}

inline ssize_t read_bytes(int fd, void* bytes, std::size_t size) noexcept {
  return call_kernel(SYS_read, fd, bytes, size);
}

inline ssize_t read_bytes_at(int fd, void* bytes, std::size_t size, std::uint64_t at) noexcept {
  return call_kernel(SYS_pread64, fd, bytes, size, at);
}

inline ssize_t write_bytes_at(int fd, const void* bytes, std::size_t size,
                              std::uint64_t at) noexcept {
  return call_kernel(SYS_pwrite64, fd, bytes, size, at);
}

// Returns how many of an epoll's descriptors are readable now: one at most, which is then `event`.
inline int look_at(int epoll_fd, epoll_event& event) noexcept {
  return static_cast<int>(call_kernel(SYS_epoll_pwait, epoll_fd, &event, 1, 0, nullptr, 0));
}

}  // namespace verbena::link
