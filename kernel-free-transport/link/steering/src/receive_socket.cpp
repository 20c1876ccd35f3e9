// SPDX-License-Identifier: BSD-2-Clause
#include "receive_socket.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "sender_filter.hpp"
#include "verbena/base/standard_streams.hpp"
#include "verbena/base/types.hpp"
#include "verbena/link/socket_address.hpp"
#include "verbena/link/socket_options.hpp"

namespace verbena::link {

SocketError socket_error(int error, const std::string& doing, const IpAddress& local) {
  return {error, doing + " " + local.to_string() + " failed: " + std::strerror(error)};
}

namespace {

// /proc/net/udp prints each 32-bit word of an address as the machine holds it.
IpAddress parse_proc_address(const std::string& hex) {
  if (hex.size() == 8) {
    return IpAddress::v4(ntohl(static_cast<std::uint32_t>(std::stoul(hex, nullptr, 16))));
  }
  IpAddress ip;
  for (std::size_t word = 0; word < 4 && hex.size() == 32; ++word) {
    const auto value = static_cast<std::uint32_t>(std::stoul(hex.substr(word * 8, 8), nullptr, 16));
    std::memcpy(ip.bytes.data() + word * 4, &value, sizeof value);
  }
  return ip;
}

std::string describe(unsigned long user, unsigned long inode) {
  if (inode == 0) return "the kernel (its own Soft-RoCE device, if rdma_rxe is loaded)";
  return "a program of user " + std::to_string(user);
}

// A line has the form "sl local:port remote:port st tx:rx tr:when retransmits uid timeout inode
// ...".
std::string find_in(const char* table, const IpAddress& local, std::uint16_t port) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string number, here, there, state, queues, timer, retransmits;
    unsigned long user = 0, timeout = 0, inode = 0;
    fields >> number >> here >> there >> state >> queues >> timer >> retransmits >> user >>
        timeout >> inode;
    const std::size_t colon = here.find(':');
    if (!fields || colon == std::string::npos) continue;
    if (std::stoul(here.substr(colon + 1), nullptr, 16) != port) continue;
    const IpAddress bound = parse_proc_address(here.substr(0, colon));
    if (bound == local || bound.is_unspecified()) return describe(user, inode);
  }
  return {};
}

// Says who holds a UDP port: "a program of user 1000", "the kernel (...)", or "another program" if
// /proc does not tell.
std::string port_holder(const IpAddress& local, std::uint16_t port) {
  try {
    for (const char* table : {"/proc/net/udp", "/proc/net/udp6"}) {
      std::string holder = find_in(table, local, port);
      if (!holder.empty()) return holder;
    }
  } catch (const std::exception&) {
    // A line that does not parse only costs the detail.
  }
  return "another program";
}

// Users meet EADDRINUSE and EADDRNOTAVAIL. All other errors are told in the system's own words.
SocketError bind_error(int error, const IpAddress& local, std::uint16_t port) {
  const std::string place = "UDP port " + std::to_string(port) + " of " + local.to_string();
  if (error == EADDRINUSE) {
    return {error, place + " is taken by " + port_holder(local, port)};
  }
  if (error == EADDRNOTAVAIL) {
    return {error, local.to_string() + " is not an address of this host; `ip address` lists them"};
  }
  return socket_error(error, "binding " + place + " at", local);
}

// Asks for the largest receive buffer that this process may have. SO_RCVBUFFORCE needs a capability
// and ignores net.core.rmem_max; without it the kernel gives as much as it allows.
void enlarge_receive_buffer(int fd, int bytes) {
  if (::setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) == 0) return;
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

// Adds the filter's questions for the slots that lead to other slots' sockets. Neighbours that lead
// to the same socket share one question, because the kernel limits how long a filter may be.
void add_extra_slots(std::vector<sock_filter>& code, SlotMap::const_iterator first,
                     SlotMap::const_iterator end) {
  while (first != end) {
    const auto [lowest, owner] = *first;
    SlotGroup::Slot highest = lowest;
    for (++first; first != end && first->first == highest + 1 && first->second == owner; ++first) {
      ++highest;
    }
    if (lowest == highest) {
      code.push_back(jump(BPF_JMP | BPF_JEQ | BPF_K, lowest, 0, 1));
    } else {
      code.push_back(jump(BPF_JMP | BPF_JGE | BPF_K, lowest, 0, 2));
      code.push_back(jump(BPF_JMP | BPF_JGT | BPF_K, highest, 1, 0));
    }
    code.push_back(statement(BPF_RET | BPF_K, owner));
  }
}

// Payload offset 0 is the BTH, whose second word carries the destination QPN. A load beyond the
// end of the datagram ends the filter with 0.
void append_steering(std::vector<sock_filter>& code, std::size_t sockets, const SlotMap& extra) {
  code.push_back(statement(BPF_LD | BPF_W | BPF_ABS, 4));
  code.push_back(statement(BPF_ALU | BPF_AND | BPF_K, kMask24));
  code.push_back(statement(BPF_ALU | BPF_RSH | BPF_K, Qpn::kIndexBits));
  const auto beyond = extra.lower_bound(static_cast<SlotGroup::Slot>(sockets));
  add_extra_slots(code, extra.begin(), beyond);
  code.push_back(jump(BPF_JMP | BPF_JGE | BPF_K, static_cast<std::uint32_t>(sockets), 1, 0));
  code.push_back(statement(BPF_RET | BPF_A, 0));
  add_extra_slots(code, beyond, extra.end());
  code.push_back(statement(BPF_RET | BPF_K, 0));
}

}  // namespace

// The first socket binds `alone`, without SO_REUSEPORT. If this user had another group on the port,
// the socket would otherwise be appended to that group, and every index would be wrong.
// SO_REUSEPORT is set afterwards.
Result<int, SocketError> open_receive_socket(const IpAddress& local,
                                             const SlotGroupOptions& options, bool alone) {
  const SocketAddress address(local, options.port, options.scope_id);
  const int fd =
      beyond_streams(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd < 0) return Failure{socket_error(errno, "opening a UDP socket for", local)};
  const int on = 1;
  if (address.family() == AF_INET6) {
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    ::setsockopt(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, &on, sizeof on);
  }
  enlarge_receive_buffer(fd, options.receive_buffer_bytes);
  const auto share = [&] { return ::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on); };
  if ((!alone && share() < 0) || ::bind(fd, address.get(), address.size()) < 0) {
    const int error = errno;
    ::close(fd);
    return Failure{bind_error(error, local, options.port)};
  }
  if (alone && share() < 0) {
    const int error = errno;
    ::close(fd);
    return Failure{socket_error(error, "sharing the UDP port of", local)};
  }
  if (alone && !take_only(fd, local, options.senders)) {
    const int error = errno;
    ::close(fd);
    return Failure{socket_error(error, "attaching the senders' filter to", local)};
  }
  return fd;
}

Result<bool, SocketError> steer(int fd, const IpAddress& local, const SenderRule& senders,
                                std::size_t sockets, const SlotMap& extra) {
  auto code = sender_check(local, senders);
  append_steering(code, sockets, extra);
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  if (::setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) < 0) {
    return Failure{socket_error(errno, "attaching the steering filter to", local)};
  }
  return true;
}

std::size_t drain_socket(int fd) {
  // The limit ends the loop even if packets keep coming.
  constexpr std::size_t kDatagramsMax = 1u << 20;
  std::size_t count = 0;
  char nothing = 0;
  while (count < kDatagramsMax) {
    if (::recv(fd, &nothing, 0, MSG_DONTWAIT | MSG_TRUNC) < 0) {
      if (errno == EAGAIN) break;
      if (errno != EINTR && errno != ECONNREFUSED) break;
      continue;
    }
    ++count;
  }
  return count;
}

}  // namespace verbena::link
