// SPDX-License-Identifier: BSD-2-Clause
// What the tests of the links share: addresses of their own, packets, and a sink that remembers.
// Each program makes its addresses from its process ID, so that programs can run side by side.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "verbena/link/link.hpp"
#include "verbena/link/slot_group.hpp"
#include "verbena/link/udp_link.hpp"
#include "verbena/wire/bth.hpp"
#include "verbena/wire/icrc.hpp"
#include "verbena/wire/opcode.hpp"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef SOL_UDP
#define SOL_UDP 17
#endif

namespace verbena::link::test {

// Returns an address of this process; `host` is in 0..3.
inline IpAddress own_address(std::uint32_t host = 0) {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  return IpAddress::v4(0x7f800000u | (pid & 0x1fffffu) << 2 | host);
}
inline std::uint16_t own_port() { return static_cast<std::uint16_t>(10000 + ::getpid() % 20000); }

inline bool wait_readable(int fd, int timeout_ms = 10'000) {
  pollfd p{fd, POLLIN, 0};
  return ::poll(&p, 1, timeout_ms) == 1;
}

using Bytes = std::vector<std::uint8_t>;

// Makes a packet of a BTH and a payload that depends on the PSN. `length` is a multiple of four.
inline Bytes make_packet(Qpn dest_qp, std::uint32_t psn, std::size_t length,
                         wire::Opcode opcode = wire::Opcode::kRcSendOnly) {
  Bytes bytes(length);
  wire::Bth bth;
  bth.opcode = static_cast<std::uint8_t>(opcode);
  bth.dest_qp = dest_qp;
  bth.psn = Psn(psn);
  bth.write_to(bytes.data());
  for (std::size_t i = wire::Bth::kSize; i < length; ++i) {
    bytes[i] = static_cast<std::uint8_t>(i * 7 + psn);
  }
  return bytes;
}

struct Arrived {
  Bytes bytes;
  wire::RxDatagram fields;  // `bytes` in here is dangling
  Qpn dest_qp() const { return wire::BthView(bytes.data()).dest_qp(); }
  std::uint32_t psn() const { return wire::BthView(bytes.data()).psn().value(); }
};

class Collector final : public RxSink {
 public:
  void on_datagram(const wire::RxDatagram& d) noexcept override {
    arrived.push_back({{d.bytes.begin(), d.bytes.end()}, d});
  }
  std::vector<Arrived> arrived;
};

// Receives until `count` packets have been taken off the link.
template <typename AnyLink>
std::size_t receive_count(AnyLink& link, RxSink& sink, std::size_t count) {
  std::size_t got = 0;
  while (got < count && wait_readable(link.wait_fd())) {
    while (const std::size_t n = link.receive(sink, 64)) got += n;
  }
  return got;
}

// A batch with a buffer of its own.
class Batch {
 public:
  explicit Batch(std::size_t bytes = 512 * 1024) : room_(bytes), batch_(room_) {}
  void add(const Bytes& packet, const wire::Destination& to) {
    std::uint8_t* at = batch_.begin(packet.size());
    ASSERT_NE(at, nullptr);
    std::memcpy(at, packet.data(), packet.size());
    batch_.commit(packet.size(), to);
  }
  wire::TxBatch& get() { return batch_; }

 private:
  std::vector<std::uint8_t> room_;
  wire::TxBatch batch_;
};

inline wire::Destination to(const IpAddress& address, bool has_grh = true) {
  return {.address = address, .has_grh = has_grh};
}

// A foreign socket, which sends any bytes.
class PlainSocket {
 public:
  explicit PlainSocket(const IpAddress& local, std::uint16_t port = 0) : local_(local) {
    fd_ = ::socket(local.is_v4() ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_storage a{};
    const socklen_t size = fill(a, local, port);
    bound_ = ::bind(fd_, reinterpret_cast<sockaddr*>(&a), size) == 0;
    socklen_t room = sizeof a;
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&a), &room);
    port_ = ntohs(reinterpret_cast<sockaddr_in*>(&a)->sin_port);  // same offset in both families
  }
  ~PlainSocket() { ::close(fd_); }
  PlainSocket(const PlainSocket&) = delete;
  PlainSocket& operator=(const PlainSocket&) = delete;

  bool bound() const { return bound_; }
  int fd() const { return fd_; }
  std::uint16_t port() const { return port_; }
  bool send(std::span<const std::uint8_t> bytes, const IpAddress& to,
            std::uint16_t port = kRoceUdpPort) const {
    sockaddr_storage a{};
    const socklen_t size = fill(a, to, port);
    return ::sendto(fd_, bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&a), size) ==
           static_cast<ssize_t>(bytes.size());
  }
  // Appends an ICRC that is right if the datagram has this IP identification.
  Bytes sealed(Bytes packet, const IpAddress& to, std::uint16_t ip_id = 0,
               std::uint16_t port = kRoceUdpPort) const {
    packet.resize(packet.size() + wire::kIcrcSize);
    wire::IcrcFlow(local_, to, port_, port).seal(packet, ip_id);
    return packet;
  }

 private:
  static socklen_t fill(sockaddr_storage& out, const IpAddress& ip, std::uint16_t port) {
    if (ip.is_v4()) {
      auto* v4 = reinterpret_cast<sockaddr_in*>(&out);
      v4->sin_family = AF_INET;
      v4->sin_port = htons(port);
      v4->sin_addr.s_addr = htonl(ip.v4_host_order());
      return sizeof *v4;
    }
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&out);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    std::memcpy(&v6->sin6_addr, ip.bytes.data(), 16);
    return sizeof *v6;
  }

  IpAddress local_;
  int fd_ = -1;
  std::uint16_t port_ = 0;
  bool bound_ = false;
};

inline SlotGroup open_group(const IpAddress& local, std::uint16_t port = kRoceUdpPort) {
  auto group = SlotGroup::open(local, {.port = port});
  EXPECT_TRUE(group.ok()) << (group.ok() ? "" : group.error().text);
  return std::move(group).value();
}

// A context as the provider makes it: a slot of the group, and a UDP link on a duplicated socket.
struct Node {
  Node(SlotGroup& group, UdpOptions options = {}) : slot(group.add_slot().value()) {
    auto opened = UdpLink::open(::dup(group.fd(slot)), group.local(), options, drops);
    EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error().text);
    link = std::move(opened).value();
  }
  Qpn qp(std::uint32_t index) const { return Qpn::from(slot, index); }

  SlotGroup::Slot slot;
  DropCounters drops;
  std::unique_ptr<UdpLink> link;
};

// Two links over UDP, each at an address of its own.
struct UdpPair {
  explicit UdpPair(UdpOptions options = {})
      : group_a(open_group(own_address(0), options.port)),
        group_b(open_group(own_address(1), options.port)),
        a(group_a, options),
        b(group_b, options) {}
  SlotGroup group_a;
  SlotGroup group_b;
  Node a;
  Node b;
};

// Options with which each address takes the other for a foreign device.
inline constexpr UdpOptions kRoce{.grh_from_port = false};

}  // namespace verbena::link::test
