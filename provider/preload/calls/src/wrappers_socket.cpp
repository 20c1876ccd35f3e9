// SPDX-License-Identifier: BSD-2-Clause
// Wraps the socket calls of netlink libraries.
#include <linux/netlink.h>
#include <sys/socket.h>

#include <cstring>

#include "netlink/netlink.hpp"
#include "nodes/node.hpp"
#include "real/export.hpp"
#include "real/fd_table.hpp"
#include "real/real.hpp"
#include "real/section.hpp"

namespace verbena::preload {
namespace {

bool is_plain(int fd) {
  const fd_table::Kind kind = fd_table::noted(fd);
  return (kind != fd_table::Kind::kNetlinkReal && kind != fd_table::Kind::kNetlinkStandIn) ||
         Section::is_inside();
}

ssize_t receive_into(int fd, void* bytes, size_t size, int flags, sockaddr* from,
                     socklen_t* from_size) {
  iovec part{bytes, size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (from != nullptr && from_size != nullptr) {
    message.msg_name = from;
    message.msg_namelen = *from_size;
  }
  const ssize_t n = netlink::receive(fd, &message, flags);
  if (n >= 0 && message.msg_name != nullptr) *from_size = message.msg_namelen;
  return n;
}

// Notes nodes among received descriptors: a peer may have passed on a node that it opened.
void notice_arrivals(const msghdr& message) {
  auto* const from = const_cast<msghdr*>(&message);
  for (cmsghdr* c = CMSG_FIRSTHDR(from); c != nullptr; c = CMSG_NXTHDR(from, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      notice(fd);
    }
  }
}

}  // namespace
}  // namespace verbena::preload

using namespace verbena::preload;

VERBENA_EXPORT int socket(int domain, int type, int protocol) noexcept {
  if (domain != AF_NETLINK || protocol != NETLINK_RDMA || Section::is_inside()) [[likely]]
    return real::socket(domain, type, protocol);
  return netlink::open_socket(type);
}

VERBENA_EXPORT ssize_t send(int fd, const void* bytes, size_t size, int flags) {
  if (!is_plain(fd)) {
    if (const auto sent = netlink::send(fd, bytes, size)) return *sent;
  }
  return real::send(fd, bytes, size, flags);
}

VERBENA_EXPORT ssize_t sendto(int fd, const void* bytes, size_t size, int flags, const sockaddr* to,
                              socklen_t to_size) {
  if (!is_plain(fd)) {
    iovec part{const_cast<void*>(bytes), size};
    msghdr message{};
    message.msg_name = const_cast<sockaddr*>(to);
    message.msg_namelen = to != nullptr ? to_size : 0;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (const auto sent = netlink::send(fd, message)) return *sent;
  }
  return real::sendto(fd, bytes, size, flags, to, to_size);
}

VERBENA_EXPORT ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (!is_plain(fd) && message != nullptr) {
    if (const auto sent = netlink::send(fd, *message)) return *sent;
  }
  return real::sendmsg(fd, message, flags);
}

VERBENA_EXPORT ssize_t recv(int fd, void* bytes, size_t size, int flags) {
  if (is_plain(fd) || !netlink::is_stand_in(fd)) return real::recv(fd, bytes, size, flags);
  return receive_into(fd, bytes, size, flags, nullptr, nullptr);
}

VERBENA_EXPORT ssize_t recvfrom(int fd, void* bytes, size_t size, int flags, sockaddr* from,
                                socklen_t* from_size) {
  if (is_plain(fd) || !netlink::is_stand_in(fd)) {
    return real::recvfrom(fd, bytes, size, flags, from, from_size);
  }
  return receive_into(fd, bytes, size, flags, from, from_size);
}

VERBENA_EXPORT ssize_t __recvfrom_chk(int fd, void* bytes, size_t size, size_t room, int flags,
                                      sockaddr* from, socklen_t* from_size) {
  if (is_plain(fd) || size > room || !netlink::is_stand_in(fd)) {
    return real::__recvfrom_chk(fd, bytes, size, room, flags, from, from_size);
  }
  return receive_into(fd, bytes, size, flags, from, from_size);
}

VERBENA_EXPORT ssize_t recvmsg(int fd, msghdr* message, int flags) {
  if (!is_plain(fd) && message != nullptr && netlink::is_stand_in(fd)) {
    return netlink::receive(fd, message, flags);
  }
  const ssize_t got = real::recvmsg(fd, message, flags);
  if (got >= 0 && message->msg_controllen != 0 && !Section::is_inside()) notice_arrivals(*message);
  return got;
}
