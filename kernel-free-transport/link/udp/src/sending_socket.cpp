// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/link/sending_socket.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "verbena/link/grh_port.hpp"
#include "verbena/link/socket_address.hpp"
#include "verbena/link/socket_options.hpp"
#include "verbena/link/source_ports.hpp"
#include "verbena/link/system_calls.hpp"

namespace verbena::link {
namespace {

void set_options(int fd, const IpAddress& local, const UdpOptions& options) {
  const auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_SNDBUF, options.tx_buffer_bytes);
  set(SOL_SOCKET, SO_RCVBUF, 0);  // it is never read: the least there is
  if (local.is_v4()) {
    set(IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
    set(IPPROTO_IP, IP_TTL, kUsualHopLimit);
    set(IPPROTO_IP, IP_MULTICAST_TTL, kUsualHopLimit);
    const in_addr from{htonl(local.v4_host_order())};
    ::setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &from, sizeof from);
  } else {
    set(IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
    set(IPPROTO_IPV6, IPV6_UNICAST_HOPS, kUsualHopLimit);
    set(IPPROTO_IPV6, IPV6_MULTICAST_HOPS, kUsualHopLimit);
    set(IPPROTO_IPV6, kIpv6AutoFlowLabel, 0);  // the address handle names the label
    if (options.scope_id != 0) {
      set(IPPROTO_IPV6, IPV6_MULTICAST_IF, static_cast<int>(options.scope_id));
    }
  }
}

// Returns the port for the socket number `which`; 0 stands for any. The emulator's ports are pairs
// of an even and an odd one (grh_port.hpp), or single ports if the parity says nothing.
std::uint16_t port_for(const UdpOptions& options, bool has_grh, unsigned which) {
  if (options.first_source_port == 0) return 0;
  const unsigned step = options.grh_from_port ? 2 : 1;
  const unsigned odd = options.grh_from_port && !has_grh ? 1 : 0;
  return static_cast<std::uint16_t>(options.first_source_port + which * step % SourcePorts::kCount +
                                    odd);
}

// Returns a bound socket; if there is none, its fd is -1, and errno says why.
SendingSocket bound_socket(const IpAddress& local, const UdpOptions& options, std::uint16_t port) {
  const SocketAddress wanted(local, port, options.scope_id);
  const int fd = new_socket(wanted.family(), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) {
    errno = -fd;
    return {};
  }
  const int on = 1;
  SocketAddress bound;
  socklen_t size = SocketAddress::kRoom;
  if ((port == 0 || ::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0) &&
      ::bind(fd, wanted.get(), wanted.size()) == 0 && ::getsockname(fd, bound.room(), &size) == 0) {
    return {fd, bound.port()};
  }
  const int error = errno;
  ::close(fd);
  errno = error;
  return {};
}

}  // namespace

// If the kernel picks the port, sockets with the wrong parity stay open until one with the right
// parity came, so that the kernel picks other ports.
Result<SendingSocket, int> open_sending_socket(const IpAddress& local, const UdpOptions& options,
                                               bool has_grh, unsigned which) noexcept {
  constexpr std::size_t kTries = 24;
  std::array<int, kTries> rejected;
  std::size_t rejects = 0;
  SendingSocket found;
  int error = EADDRINUSE;
  while (found.fd < 0 && rejects < kTries) {
    const SendingSocket candidate = bound_socket(local, options, port_for(options, has_grh, which));
    if (candidate.fd < 0) {
      error = errno;
      break;
    }
    if (!options.grh_from_port || source_port_says_grh(candidate.port) == has_grh) {
      found = candidate;
    } else {
      rejected[rejects++] = candidate.fd;
    }
  }
  for (std::size_t i = 0; i < rejects; ++i) ::close(rejected[i]);
  if (found.fd < 0) return Failure{error};
  set_options(found.fd, local, options);
  return found;
}

SocketError sending_socket_error(int error, const IpAddress& local) {
  if (error == EADDRINUSE) {
    return {error, "no free UDP port of " + local.to_string() + " to send from"};
  }
  return {error, "opening a UDP socket of " + local.to_string() +
                     " to send from failed: " + std::strerror(error)};
}

}  // namespace verbena::link
