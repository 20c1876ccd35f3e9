// SPDX-License-Identifier: BSD-2-Clause
// Converts an IpAddress and a port to the kernel's form and back. IPv4 is AF_INET here, never
// mapped.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstring>

#include "verbena/base/address.hpp"

namespace verbena::link {

class SocketAddress {
 public:
  // Makes room for an address that the kernel writes.
  SocketAddress() = default;
  SocketAddress(const IpAddress& ip, std::uint16_t port, std::uint32_t scope_id) {
    if (ip.is_v4()) {
      storage_.v4 = {};
      storage_.v4.sin_family = AF_INET;
      storage_.v4.sin_port = htons(port);
      storage_.v4.sin_addr.s_addr = htonl(ip.v4_host_order());
      size_ = sizeof storage_.v4;
      return;
    }
    be_v6(ip, port, scope_id);
  }

  int family() const { return storage_.any.sa_family; }
  const sockaddr* get() const { return &storage_.any; }
  socklen_t size() const { return size_; }
  sockaddr* room() { return &storage_.any; }
  static constexpr socklen_t kRoom = sizeof(sockaddr_in6);

  // Returns the address that the kernel wrote into room().
  IpAddress ip() const {
    if (family() == AF_INET) return IpAddress::v4(ntohl(storage_.v4.sin_addr.s_addr));
    IpAddress address;
    std::memcpy(address.bytes.data(), &storage_.v6.sin6_addr, address.bytes.size());
    return address;
  }
  std::uint16_t port() const {
    return ntohs(family() == AF_INET ? storage_.v4.sin_port : storage_.v6.sin6_port);
  }

 private:
  [[gnu::noinline]] void be_v6(const IpAddress& ip, std::uint16_t port,
                               std::uint32_t scope_id) noexcept {
    storage_.v6 = {};
    storage_.v6.sin6_family = AF_INET6;
    storage_.v6.sin6_port = htons(port);
    std::memcpy(&storage_.v6.sin6_addr, ip.bytes.data(), ip.bytes.size());
    const bool is_link_local = ip.bytes[0] == 0xfe && (ip.bytes[1] & 0xc0) == 0x80;
    const bool is_link_multicast = ip.bytes[0] == 0xff && (ip.bytes[1] & 0x0f) == 0x02;
    if (is_link_local || is_link_multicast) storage_.v6.sin6_scope_id = scope_id;
    size_ = sizeof storage_.v6;
  }

  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
  } storage_{};
  socklen_t size_ = 0;
};

}  // namespace verbena::link
