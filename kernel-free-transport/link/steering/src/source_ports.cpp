// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/link/source_ports.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "sender_filter.hpp"
#include "verbena/base/standard_streams.hpp"
#include "verbena/link/seed.hpp"
#include "verbena/link/socket_address.hpp"

namespace verbena::link {
namespace {

constexpr std::uint32_t kBlocks = (0x10000 - SourcePorts::kLowest) / SourcePorts::kCount;
// These blocks are above the kernel's usual ephemeral ports (32768 to 60999).
constexpr std::uint32_t kQuietBlocks = (0x10000 - 61008) / SourcePorts::kCount;

// Holds a port on every address, of both families if the host has both. The socket binds before it
// sets SO_REUSEPORT: a port that another socket of this user has counts as taken as well.
int hold(std::uint16_t port) {
  const int on = 1;
  const int off = 0;
  const int nothing = 0;
  int fd = beyond_streams(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool is_v6 = fd >= 0;
  if (!is_v6) {
    fd = beyond_streams(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  }
  if (fd < 0) return -1;
  if (is_v6) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &nothing, sizeof nothing);  // it is never read
  const SocketAddress all(is_v6 ? IpAddress{} : IpAddress::v4(0), port, 0);
  if (::bind(fd, all.get(), all.size()) == 0 &&
      ::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0) {
    return fd;
  }
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

}  // namespace

Result<SourcePorts, SocketError> SourcePorts::reserve() {
  // The search begins at the top, since programs may want what is below, and emulators begin at
  // different blocks.
  const std::uint32_t start = static_cast<std::uint32_t>(random_seed()) % kQuietBlocks;
  for (std::uint32_t i = 0; i < kBlocks; ++i) {
    const std::uint32_t block = i < kQuietBlocks ? (start + i) % kQuietBlocks : i;
    SourcePorts ports;
    ports.first_ = static_cast<std::uint16_t>(0x10000 - (block + 1) * kCount);
    for (std::uint16_t n = 0; n < kCount; ++n) {
      const int fd = hold(static_cast<std::uint16_t>(ports.first_ + n));
      const int error = errno;
      if (fd < 0 && error != EADDRINUSE && error != EACCES && error != EPERM) {
        return Failure{SocketError{
            error, std::string("holding a UDP port to send from failed: ") + std::strerror(error)}};
      }
      if (fd < 0) break;
      ports.fds_.push_back(fd);
    }
    if (ports.fds_.size() == kCount) return ports;
  }
  return Failure{SocketError{EADDRINUSE, "no " + std::to_string(kCount) +
                                             " UDP ports side by side above " +
                                             std::to_string(kLowest) + " are free to send from"}};
}

SourcePorts::SourcePorts(SourcePorts&& other) noexcept
    : first_(other.first_), fds_(std::exchange(other.fds_, {})) {}

SourcePorts::~SourcePorts() {
  for (const int fd : fds_) ::close(fd);
}

bool take_only(int fd, const IpAddress& local, const SenderRule& rule) {
  std::vector<sock_filter> code = sender_check(local, rule);
  if (code.empty()) return true;
  code.push_back(statement(BPF_RET | BPF_K, ~std::uint32_t{0}));
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  return ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

}  // namespace verbena::link
