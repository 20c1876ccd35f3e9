#include "verbena/link/sending_socket.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "socket_address.hpp"
#include "verbena/link/grh_port.hpp"

namespace verbena::link {
namespace {

constexpr std::uint8_t kDefaultHopLimit = 64;

void set_options(int fd, const IpAddress& local, const UdpOptions& options) {
  const auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_SNDBUF, options.tx_buffer_bytes);
  set(SOL_SOCKET, SO_RCVBUF, 0);  // nobody reads it: the least there is
  if (local.is_v4()) {
    set(IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
    set(IPPROTO_IP, IP_MULTICAST_TTL, kDefaultHopLimit);
    const in_addr from{htonl(local.v4_host_order())};
    ::setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &from, sizeof from);
  } else {
    set(IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
    set(IPPROTO_IPV6, IPV6_MULTICAST_HOPS, kDefaultHopLimit);
    if (options.scope_id != 0) {
      set(IPPROTO_IPV6, IPV6_MULTICAST_IF, static_cast<int>(options.scope_id));
    }
  }
}

}  // namespace

// The kernel picks the port; sockets with one of the wrong parity are kept until a right one came.
Result<SendingSocket, int> open_sending_socket(const IpAddress& local, const UdpOptions& options,
                                               bool has_grh) noexcept {
  constexpr std::size_t kTries = 24;
  std::array<int, kTries> rejected;
  std::size_t rejects = 0;
  SendingSocket found;
  int error = EADDRINUSE;
  const SocketAddress any_port(local, 0, options.scope_id);
  while (found.fd < 0 && rejects < kTries) {
    const int candidate = ::socket(any_port.family(), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    SocketAddress bound;
    socklen_t size = SocketAddress::kRoom;
    if (candidate < 0 || ::bind(candidate, any_port.get(), any_port.size()) < 0 ||
        ::getsockname(candidate, bound.room(), &size) < 0) {
      error = errno;
      if (candidate >= 0) ::close(candidate);
      break;
    }
    if (!options.grh_from_port || source_port_says_grh(bound.port()) == has_grh) {
      found = {candidate, bound.port()};
    } else {
      rejected[rejects++] = candidate;
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
