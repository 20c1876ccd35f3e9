// SPDX-License-Identifier: BSD-2-Clause
// NETLINK_RDMA sockets, by which libibverbs, librdmacm and `rdma` find our devices among the
// kernel's. Nothing is kept per socket: the socket sends a reply to itself, through the kernel, so
// the program waits for it and reads it as usual.
//
//   the kernel has no RDMA   The program gets a NETLINK_USERSOCK socket (the stand-in).
//   the kernel has RDMA      The program gets the real socket. A request that concerns us puts a
//                            stand-in in its place, under the same number and port; a request
//                            for the kernel puts a real one back. Lists of all devices are asked
//                            from the kernel on the side and come with ours at their end.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <optional>

namespace verbena::preload::netlink {

// Does what socket(AF_NETLINK, type, NETLINK_RDMA) does.
int open_socket(int type);

// Sends on a noted descriptor. Returns nothing if the call is to be passed on.
std::optional<ssize_t> send(int fd, const void* bytes, std::size_t size);
std::optional<ssize_t> send(int fd, const msghdr& message);

bool is_stand_in(int fd);

// Does what recvmsg does, on a stand-in. The sender looks like the kernel.
ssize_t receive(int fd, msghdr* message, int flags);

}  // namespace verbena::preload::netlink
