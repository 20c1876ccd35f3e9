// SPDX-License-Identifier: BSD-2-Clause
#include "netlink/netlink.hpp"

#include <fcntl.h>
#include <linux/netlink.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "nodes/node.hpp"
#include "paths/discovery.hpp"
#include "real/fd_table.hpp"
#include "real/real.hpp"
#include "real/section.hpp"
#include "real/trace.hpp"
#include "verbena/base/standard_streams.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/preload/nldev.hpp"

namespace verbena::preload::netlink {
namespace {

using control::UniqueFd;
using fd_table::Kind;

constexpr int kStandInProtocol = NETLINK_USERSOCK;
constexpr std::size_t kRequestMax = 1 << 20;
constexpr std::size_t kKernelReplyMax = 16 << 20;
constexpr int kKernelPatienceSeconds = 3;

sockaddr_nl address_of(std::uint32_t port) {
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_pid = port;
  return address;
}

std::optional<sockaddr_nl> own_address(int fd) {
  sockaddr_nl own{};
  socklen_t size = sizeof own;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0) return std::nullopt;
  return own;
}

// Returns the socket's port number. A socket without one gets one, as on its first send.
std::uint32_t port_of(int fd) {
  auto own = own_address(fd);
  if (own && own->nl_pid == 0) {
    const sockaddr_nl any = address_of(0);
    (void)::bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any);
    own = own_address(fd);
  }
  return own ? own->nl_pid : 0;
}

int option_of(int fd, int option) {
  int value = 0;
  socklen_t size = sizeof value;
  (void)::getsockopt(fd, SOL_SOCKET, option, &value, &size);
  return value;
}

// Puts a socket of the other protocol under the number, with the same type, flags, port and buffer.
bool exchange(int fd, Kind kind) {
  const auto own = own_address(fd);
  if (!own || own->nl_groups != 0) return false;  // it listens to the kernel's announcements
  const int protocol = kind == Kind::kNetlinkReal ? NETLINK_RDMA : kStandInProtocol;
  UniqueFd other(
      beyond_streams(real::socket(AF_NETLINK, option_of(fd, SO_TYPE) | SOCK_CLOEXEC, protocol)));
  if (!other) return false;
  const sockaddr_nl wanted = address_of(port_of(fd));
  if (::bind(other.get(), reinterpret_cast<const sockaddr*>(&wanted), sizeof wanted) != 0) {
    return false;
  }
  // The kernel doubles the value that it is given.
  const int room = option_of(fd, SO_RCVBUF) / 2;
  (void)::setsockopt(other.get(), SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
  (void)real::fcntl(other.get(), F_SETFL, real::fcntl(fd, F_GETFL));
  const int on_exec = real::fcntl(fd, F_GETFD) & FD_CLOEXEC;
  if (real::dup3(other.get(), fd, on_exec != 0 ? O_CLOEXEC : 0) < 0) return false;
  fd_table::mark(fd, kind);
  return true;
}

// Returns the kernel's whole answer to a dump, or nothing.
std::vector<std::uint8_t> ask_kernel(std::span<const std::uint8_t> request) {
  std::vector<std::uint8_t> reply;
  const UniqueFd fd(
      beyond_streams(real::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA)));
  if (!fd) return reply;
  const timeval patience{kKernelPatienceSeconds, 0};
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const sockaddr_nl kernel = address_of(0);
  if (real::sendto(fd.get(), static_cast<const void*>(request.data()), request.size(), 0,
                   reinterpret_cast<const sockaddr*>(&kernel),
                   static_cast<socklen_t>(sizeof kernel)) < 0) {
    return reply;
  }
  std::vector<std::uint8_t> datagram(64 * 1024);
  while (reply.size() < kKernelReplyMax) {
    const ssize_t n = real::recv(fd.get(), static_cast<void*>(datagram.data()), datagram.size(), 0);
    if (n <= 0) break;
    const std::span<const std::uint8_t> part(datagram.data(), static_cast<std::size_t>(n));
    reply.resize((reply.size() + 3) & ~std::size_t{3});
    reply.insert(reply.end(), part.begin(), part.end());
    const auto messages = parse_netlink(part);
    const bool is_last = std::any_of(messages.begin(), messages.end(), [](const auto& m) {
      return m.type == NLMSG_DONE || m.type == NLMSG_ERROR;
    });
    if (is_last) break;
  }
  return reply;
}

// Sends the replies from the socket to itself.
bool deliver(int fd, const NetlinkReplies& replies) {
  const sockaddr_nl self = address_of(port_of(fd));
  constexpr int kRoom = 1 << 20;
  if (replies.datagrams.size() > 8) {
    (void)::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kRoom, sizeof kRoom);
  }
  for (const auto& datagram : replies.datagrams) {
    if (real::sendto(fd, static_cast<const void*>(datagram.data()), datagram.size(), MSG_DONTWAIT,
                     reinterpret_cast<const sockaddr*>(&self),
                     static_cast<socklen_t>(sizeof self)) < 0) {
      VERBENA_TRACE("netlink %d: a reply does not fit: errno %d", fd, errno);
      errno = ENOBUFS;
      return false;
    }
  }
  return true;
}

Catalogue make_catalogue() {
  Catalogue catalogue;
  catalogue.devices = list_devices();
  catalogue.resources = [](const std::string& device, control::ResourcesOf of) {
    return list_resources(device, of);
  };
  catalogue.counters = [](const std::string& device) { return list_counters(device); };
  if (node_of_name("rdma_cm")) {
    constexpr std::uint64_t kRdmaCmAbi = 4;
    catalogue.shared.push_back({"rdma_cm", "rdma_cm", kRdmaCmAbi, device_number_of("rdma_cm")});
  }
  return catalogue;
}

// Returns what send returns, or -1 and errno.
ssize_t answer(int fd, std::span<const std::uint8_t> request, bool has_kernel) {
  const Catalogue catalogue = make_catalogue();
  const std::uint32_t port = port_of(fd);
  NetlinkReplies replies;
  for (const NetlinkMessage& message : parse_netlink(request)) {
    VERBENA_TRACE("netlink %d: request type 0x%x flags 0x%x", fd, message.type, message.flags);
    if (has_kernel && route_of(message) == Route::kMerged) {
      merge_dump(message, ask_kernel(message.bytes), catalogue, port, replies);
    } else {
      answer_nldev(message, catalogue, port, replies);
    }
  }
  return deliver(fd, replies) ? static_cast<ssize_t>(request.size()) : -1;
}

// Where the kernel has RDMA, every stand-in has replaced a real socket.
bool kernel_has_rdma() {
  return static_cast<bool>(
      UniqueFd(beyond_streams(real::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA))));
}

std::optional<ssize_t> handle(int fd, std::span<const std::uint8_t> request) {
  const Kind kind = fd_table::verified(fd);
  if (kind != Kind::kNetlinkReal && kind != Kind::kNetlinkStandIn) return std::nullopt;
  const bool has_kernel = kind == Kind::kNetlinkReal || kernel_has_rdma();
  if (has_kernel) {
    const auto messages = parse_netlink(request);
    const bool is_for_kernel =
        messages.empty() || route_of(messages.front()) == Route::kKernel || !is_emulator_alive();
    const Kind wanted = is_for_kernel ? Kind::kNetlinkReal : Kind::kNetlinkStandIn;
    if (kind != wanted && !exchange(fd, wanted)) return std::nullopt;
    if (is_for_kernel) return std::nullopt;
  }
  return answer(fd, request, has_kernel);
}

}  // namespace

int open_socket(int type) {
  Section section;
  const int fd = real::socket(AF_NETLINK, type, NETLINK_RDMA);
  if (fd >= 0) {
    if (is_emulator_alive()) fd_table::mark(fd, Kind::kNetlinkReal);
    return fd;
  }
  const int code = errno;
  section.set_errno(code);
  if (code != EPROTONOSUPPORT) return -1;
  if (!connect_to_emulator()) {
    explain_absence(errno);
    return -1;
  }
  const int stand_in = real::socket(AF_NETLINK, type, kStandInProtocol);
  if (stand_in < 0) {
    section.set_errno(errno);
    return -1;
  }
  VERBENA_TRACE("netlink %d stands in for NETLINK_RDMA", stand_in);
  fd_table::mark(stand_in, Kind::kNetlinkStandIn);
  return stand_in;
}

std::optional<ssize_t> send(int fd, const void* bytes, std::size_t size) {
  iovec part{const_cast<void*>(bytes), size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  return send(fd, message);
}

std::optional<ssize_t> send(int fd, const msghdr& message) {
  Section section;
  if (message.msg_name != nullptr) {
    sockaddr_nl to{};
    std::memcpy(&to, message.msg_name, std::min<std::size_t>(message.msg_namelen, sizeof to));
    if (to.nl_pid != 0 || to.nl_groups != 0) return std::nullopt;  // not to the kernel
  }
  try {
    std::vector<std::uint8_t> request;
    for (std::size_t i = 0; i < message.msg_iovlen; ++i) {
      const iovec& part = message.msg_iov[i];
      if (part.iov_len > kRequestMax - request.size()) return std::nullopt;
      const auto* first = static_cast<const std::uint8_t*>(part.iov_base);
      request.insert(request.end(), first, first + part.iov_len);
    }
    const auto sent = handle(fd, request);
    if (sent && *sent < 0) section.set_errno(errno);
    return sent;
  } catch (...) {
    section.set_errno(ENOMEM);
    return -1;
  }
}

bool is_stand_in(int fd) {
  return fd_table::noted(fd) == Kind::kNetlinkStandIn && !Section::is_inside() &&
         fd_table::verified(fd) == Kind::kNetlinkStandIn;
}

ssize_t receive(int fd, msghdr* message, int flags) {
  const auto own = own_address(fd);
  for (;;) {
    sockaddr_nl sender{};
    msghdr inner = *message;
    inner.msg_name = &sender;
    inner.msg_namelen = sizeof sender;
    const ssize_t n = real::recvmsg(fd, &inner, flags);
    if (n < 0) return n;
    if (own && sender.nl_pid != own->nl_pid) {
      // Any process of this host may send to a user socket; only we may speak for the kernel.
      char byte = 0;
      if ((flags & MSG_PEEK) != 0) (void)real::recv(fd, static_cast<void*>(&byte), 1, MSG_DONTWAIT);
      continue;
    }
    if (message->msg_name != nullptr) {
      const sockaddr_nl kernel = address_of(0);
      std::memcpy(message->msg_name, &kernel,
                  std::min<std::size_t>(message->msg_namelen, sizeof kernel));
      message->msg_namelen = sizeof kernel;
    }
    message->msg_controllen = inner.msg_controllen;
    message->msg_flags = inner.msg_flags;
    return n;
  }
}

}  // namespace verbena::preload::netlink
