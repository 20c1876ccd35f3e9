// SPDX-License-Identifier: BSD-2-Clause
// Stands in for a kernel with one RDMA device ("foreign0", index 0) on hosts that have none. It is
// preloaded behind the preload library, which then finds NETLINK_RDMA supported. Its sockets are of
// another netlink family, on which it sends the reply from the socket to itself.
#include <dlfcn.h>
#include <linux/netlink.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "verbena/preload/nldev.hpp"

namespace {

using namespace verbena::preload;

constexpr int kFamily = NETLINK_KOBJECT_UEVENT;  // a family that the preload library does not use

template <typename F>
F* next(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

bool is_mine(int fd) {
  int value = 0;
  socklen_t size = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &value, &size) == 0 && value == kFamily;
}

// Returns the device's node, with an attribute that only a kernel sends: its driver's number.
std::vector<std::uint8_t> node_of(const NetlinkMessage& request, std::uint32_t port) {
  NetlinkWriter reply(request.type, 0, request.sequence, port);
  reply.put_string(RDMA_NLDEV_ATTR_CHARDEV_NAME, "uverbs0");
  reply.put_u64(RDMA_NLDEV_ATTR_CHARDEV_ABI, 2);  // the number of librxe
  reply.put_u64(RDMA_NLDEV_ATTR_CHARDEV, ::makedev(231, 192));
  reply.put_u32(RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, RDMA_DRIVER_RXE);
  return reply.take();
}

void answer(int fd, std::span<const std::uint8_t> datagram) {
  Catalogue catalogue;
  catalogue.devices.emplace_back();
  catalogue.devices[0].name = "foreign0";
  catalogue.devices[0].netlink_index = 0;
  catalogue.devices[0].node_guid = 0xf0;
  catalogue.devices[0].firmware_version = "kernel";
  sockaddr_nl own{};
  own.nl_family = AF_NETLINK;
  (void)::bind(fd, reinterpret_cast<const sockaddr*>(&own), sizeof own);
  socklen_t size = sizeof own;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0) return;
  NetlinkReplies replies;
  for (const NetlinkMessage& message : parse_netlink(datagram)) {
    if (RDMA_NL_GET_OP(message.type) == RDMA_NLDEV_CMD_GET_CHARDEV) {
      replies.add(node_of(message, own.nl_pid));
    } else {
      answer_nldev(message, catalogue, own.nl_pid, replies);
    }
  }
  for (const auto& reply : replies.datagrams) {
    iovec part{const_cast<std::uint8_t*>(reply.data()), reply.size()};
    msghdr out{};
    out.msg_name = &own;
    out.msg_namelen = sizeof own;
    out.msg_iov = &part;
    out.msg_iovlen = 1;
    (void)next<ssize_t(int, const msghdr*, int)>("sendmsg")(fd, &out, 0);
  }
}

}  // namespace

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

FAKE_EXPORT int socket(int domain, int type, int protocol) noexcept {
  if (domain == AF_NETLINK && protocol == NETLINK_RDMA) protocol = kFamily;
  return next<int(int, int, int)>("socket")(domain, type, protocol);
}

FAKE_EXPORT ssize_t sendto(int fd, const void* bytes, size_t size, int flags, const sockaddr* to,
                           socklen_t to_size) {
  if (is_mine(fd)) {
    answer(fd, {static_cast<const std::uint8_t*>(bytes), size});
    return static_cast<ssize_t>(size);
  }
  return next<ssize_t(int, const void*, size_t, int, const sockaddr*, socklen_t)>("sendto")(
      fd, bytes, size, flags, to, to_size);
}

FAKE_EXPORT ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (is_mine(fd) && message->msg_iovlen == 1) {
    const iovec& part = *message->msg_iov;
    answer(fd, {static_cast<const std::uint8_t*>(part.iov_base), part.iov_len});
    return static_cast<ssize_t>(part.iov_len);
  }
  return next<ssize_t(int, const msghdr*, int)>("sendmsg")(fd, message, flags);
}

// Makes the node's path exist.
FAKE_EXPORT int stat(const char* path, struct stat* out) noexcept {
  if (std::strcmp(path, "/dev/infiniband/uverbs0") == 0) path = "/dev/null";
  return next<int(const char*, struct stat*)>("stat")(path, out);
}

// Makes the kernel the sender.
FAKE_EXPORT ssize_t recvmsg(int fd, msghdr* message, int flags) {
  const ssize_t n = next<ssize_t(int, msghdr*, int)>("recvmsg")(fd, message, flags);
  if (n >= 0 && is_mine(fd) && message->msg_name != nullptr) {
    static_cast<sockaddr_nl*>(message->msg_name)->nl_pid = 0;
  }
  return n;
}
