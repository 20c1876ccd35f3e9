// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/fabric/interfaces.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "verbena/control/unique_fd.hpp"

namespace verbena::fabric {
namespace {

std::uint32_t mtu_of(int socket, const char* name) {
  ifreq request{};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  if (::ioctl(socket, SIOCGIFMTU, &request) != 0) return 0;
  return static_cast<std::uint32_t>(request.ifr_mtu);
}

IpAddress address_of(const sockaddr* sa) {
  if (sa->sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, sa, sizeof in);
    return IpAddress::v4(ntohl(in.sin_addr.s_addr));
  }
  sockaddr_in6 in6{};
  std::memcpy(&in6, sa, sizeof in6);
  IpAddress address;
  std::memcpy(address.bytes.data(), &in6.sin6_addr, address.bytes.size());
  return address;
}

std::uint8_t prefix_of(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  const IpAddress bits = address_of(mask);
  const std::size_t from = mask->sa_family == AF_INET ? 12 : 0;
  unsigned length = 0;
  for (std::size_t i = from; i < bits.bytes.size(); ++i) {
    length += static_cast<unsigned>(__builtin_popcount(bits.bytes[i]));
  }
  return static_cast<std::uint8_t>(length);
}

bool lacks_descriptors() { return errno == EMFILE || errno == ENFILE; }

Failure<control::Error> cannot_look() {
  const int code = errno;
  return control::fail(code, std::string("cannot look at the interfaces: ") + std::strerror(code));
}

// Says whether an address can be used. An IPv6 address is listed before duplicate address detection
// has ended, and cannot be used until then.
control::Outcome<bool> is_usable(const sockaddr* sa) {
  if (sa->sa_family != AF_INET6) return true;
  const control::UniqueFd socket(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket && lacks_descriptors()) return cannot_look();
  return socket && ::bind(socket.get(), sa, sizeof(sockaddr_in6)) == 0;
}

Interface make(int socket, const char* name, const sockaddr* address, const sockaddr* mask,
               unsigned flags) {
  Interface one;
  one.address = address_of(address);
  one.prefix_length = prefix_of(mask);
  one.name = name;
  // A label such as eth0:1 belongs to eth0.
  one.name.resize(std::min(one.name.find(':'), one.name.size()));
  one.index = ::if_nametoindex(one.name.c_str());
  one.mtu = mtu_of(socket, one.name.c_str());
  one.loopback = (flags & IFF_LOOPBACK) != 0;
  one.is_up = (flags & IFF_UP) != 0;
  return one;
}

// Lists interfaces in sandboxes that forbid netlink. IPv4 addresses only.
std::vector<Interface> list_without_netlink(int socket) {
  std::vector<ifreq> requests(256);
  ifconf list{};
  list.ifc_len = static_cast<int>(requests.size() * sizeof(ifreq));
  list.ifc_req = requests.data();
  if (::ioctl(socket, SIOCGIFCONF, &list) != 0) return {};
  requests.resize(static_cast<std::size_t>(list.ifc_len) / sizeof(ifreq));
  std::vector<Interface> all;
  for (const ifreq& known : requests) {
    ifreq flags = known;
    ifreq mask = known;
    if (::ioctl(socket, SIOCGIFFLAGS, &flags) != 0) continue;
    if (::ioctl(socket, SIOCGIFNETMASK, &mask) != 0) continue;
    all.push_back(make(socket, known.ifr_name, &known.ifr_addr, &mask.ifr_netmask,
                       static_cast<unsigned>(flags.ifr_flags)));
  }
  return all;
}

}  // namespace

control::Outcome<std::vector<Interface>> list_interfaces() {
  const control::UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket && lacks_descriptors()) return cannot_look();
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) {
    if (lacks_descriptors()) return cannot_look();
    return list_without_netlink(socket.get());
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  std::vector<Interface> all;
  for (const ifaddrs* i = first; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr) continue;
    if (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6) continue;
    const auto usable = is_usable(i->ifa_addr);
    if (!usable) return Failure<control::Error>{usable.error()};
    if (!*usable) continue;
    all.push_back(make(socket.get(), i->ifa_name, i->ifa_addr, i->ifa_netmask, i->ifa_flags));
  }
  return all;
}

std::optional<Interface> interface_of(const std::vector<Interface>& all, const IpAddress& address) {
  for (const Interface& one : all) {
    if (one.address == address) return one;
  }
  if (!address.is_v4() || address.v4_host_order() >> 24 != 127) return std::nullopt;
  for (const Interface& one : all) {
    if (one.loopback && one.address.is_v4()) return one;
  }
  return std::nullopt;
}

}  // namespace verbena::fabric
