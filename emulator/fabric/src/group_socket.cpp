// SPDX-License-Identifier: BSD-2-Clause
#include "group_socket.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace verbena::fabric {
namespace {

using control::UniqueFd;

bool bind_and_join_v4(int fd, const IpAddress& group, const IpAddress& local, unsigned if_index) {
  const int off = 0;
  ::setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof off);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(kRoceUdpPort);
  to.sin_addr.s_addr = htonl(group.v4_host_order());
  ip_mreqn join{};
  join.imr_multiaddr = to.sin_addr;
  join.imr_address.s_addr = htonl(local.v4_host_order());
  join.imr_ifindex = static_cast<int>(if_index);
  return ::bind(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 &&
         ::setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join) == 0;
}

bool bind_and_join_v6(int fd, const IpAddress& group, unsigned if_index) {
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(kRoceUdpPort);
  to.sin6_scope_id = if_index;
  std::memcpy(&to.sin6_addr, group.bytes.data(), group.bytes.size());
  ipv6_mreq join{};
  join.ipv6mr_multiaddr = to.sin6_addr;
  join.ipv6mr_interface = if_index;
  return ::bind(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 &&
         ::setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &join, sizeof join) == 0;
}

}  // namespace

control::Outcome<UniqueFd> open_group_socket(const IpAddress& group, const IpAddress& local,
                                             std::uint32_t if_index) {
  const int family = group.is_v4() ? AF_INET : AF_INET6;
  UniqueFd fd(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // Other ports, even of other users, receive the same group.
  const int on = 1;
  const bool open = fd && ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                    (family == AF_INET ? bind_and_join_v4(fd.get(), group, local, if_index)
                                       : bind_and_join_v6(fd.get(), group, if_index));
  if (!open) {
    const int code = errno;
    return control::fail(
        code, "cannot join multicast group " + group.to_string() + ": " + std::strerror(code));
  }
  return fd;
}

}  // namespace verbena::fabric
