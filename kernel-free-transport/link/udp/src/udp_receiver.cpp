// SPDX-License-Identifier: BSD-2-Clause
#include "udp_receiver.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "bundles.hpp"
#include "verbena/link/grh_port.hpp"
#include "verbena/link/socket_options.hpp"
#include "verbena/link/system_calls.hpp"
#include "verbena/wire/bth.hpp"

namespace verbena::link {
namespace {

constexpr std::size_t kReadMax = 65536;
constexpr std::size_t kLeast = wire::Bth::kSize + wire::kIcrcSize;
// The longest run. What was read for its checksum is then still in the nearest cache when it is
// copied.
constexpr std::size_t kRxRunBytes = 20 * 1024;

void switch_on(int fd, int level, int option) {
  const int on = 1;
  ::setsockopt(fd, level, option, &on, sizeof on);
}

template <typename T>
T value_of(const cmsghdr* header) {
  T value;
  std::memcpy(&value, CMSG_DATA(header), sizeof value);
  return value;
}

IpAddress address_of(const in6_addr& from) {
  IpAddress ip;
  std::memcpy(ip.bytes.data(), &from, ip.bytes.size());
  return ip;
}

// Gathers the packets of a buffer into runs: packets to one queue pair, of one length but for a
// shorter last one, with none missing. An ACK in front of a packet is piggybacked on it.
class Run {
 public:
  Run(const wire::RxDatagram& fields, RxSink& sink) : sink_(sink) { run_.head = fields; }

  // `sealed` is a packet with its ICRC.
  void add(std::span<const std::uint8_t> sealed) noexcept {
    const auto packet = sealed.first(sealed.size() - wire::kIcrcSize);
    if (run_.count != 0 && !goes_on_with(packet) && !piggybacks_on(packet)) deliver();
    if (run_.count == 0) {
      run_.head.bytes = packet;
      run_.step = sealed.size();
    }
    ++run_.count;
    run_.last_length = packet.size();
  }
  void deliver() noexcept {
    if (run_.count == 1) sink_.on_datagram(run_.head);
    if (run_.count > 1) sink_.on_run(run_);
    run_.count = 0;
    run_.head.piggybacked_ack.reset();
  }

 private:
  // Returns true if the packet that was added last is an ACK that is now piggybacked on this one.
  // The run then begins anew with this packet.
  bool piggybacks_on(std::span<const std::uint8_t> packet) noexcept {
    if (run_.count != 1 || run_.head.piggybacked_ack) return false;
    run_.head.piggybacked_ack = wire::PiggybackedAck::of(run_.head.bytes, packet);
    if (run_.head.piggybacked_ack) run_.count = 0;
    return run_.count == 0;
  }
  bool goes_on_with(std::span<const std::uint8_t> packet) const noexcept {
    const auto& head = run_.head.bytes;
    return packet.data() == head.data() + run_.count * run_.step && packet.size() <= head.size() &&
           (run_.count + std::size_t{1}) * run_.step <= kRxRunBytes &&
           wire::BthView(packet.data()).dest_qp() == wire::BthView(head.data()).dest_qp();
  }

  wire::RxRun run_;
  RxSink& sink_;
};

}  // namespace

UdpReceiver::UdpReceiver(int fd, const IpAddress& local, const UdpOptions& options,
                         DropCounters& drops, UdpStatistics& statistics)
    : fd_(fd),
      local_(local),
      options_(options),
      drops_(drops),
      statistics_(statistics),
      takes_coalesced_(!has_own_peers_only(options, local)),
      buffer_(std::make_unique_for_overwrite<std::uint8_t[]>(kReadMax)) {
  // A kernel without coalescing (before 5.0) hands out single packets, which works as well. A
  // socket that takes coalesced buffers is 0.1 us slower with each small packet, and if all peers
  // send bundles, there is nothing to coalesce.
  if (takes_coalesced_) switch_on(fd, IPPROTO_UDP, UDP_GRO);
  if (!local.is_v4()) switch_on(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX);
  if (options.want_ip_fields || local.is_unspecified()) {
    switch_on(fd, IPPROTO_IP, IP_PKTINFO);
    if (!local.is_v4()) switch_on(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO);
    want_header_fields();
  }
  int bytes = 0;
  socklen_t size = sizeof bytes;
  if (::getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, &size) == 0 && bytes > 0) {
    buffer_bytes_ = static_cast<std::uint64_t>(bytes);
  }
}

void UdpReceiver::want_header_fields() noexcept {
  if (std::exchange(wants_fields_, true)) return;
  switch_on(fd_, IPPROTO_IP, IP_RECVTOS);
  switch_on(fd_, IPPROTO_IP, IP_RECVTTL);
  if (local_.is_v4()) return;
  switch_on(fd_, IPPROTO_IPV6, IPV6_RECVTCLASS);
  switch_on(fd_, IPPROTO_IPV6, IPV6_RECVHOPLIMIT);
  switch_on(fd_, IPPROTO_IPV6, kIpv6FlowInfo);
}

UdpReceiver::~UdpReceiver() { ::close(fd_); }

// Reads once, up to 64 KiB. The caller calls again, and a read that only finds the socket empty
// costs 270 ns.
std::size_t UdpReceiver::receive(RxSink& sink) noexcept {
  statistics_.receive_calls.add();
  Coalesced buffer;
  return read(buffer) ? deliver(buffer, sink) : 0;
}

bool UdpReceiver::read(Coalesced& out) noexcept {
  SocketAddress source;
  const bool has_options = wants_fields_ || takes_coalesced_;
  out.segment_bytes = 0;
  out.fields.destination = local_;
  out.fields.traffic_class = 0;
  out.fields.hop_limit = 64;
  out.fields.flow_label = 0;
  ssize_t length = 0;
  do {
    length = has_options ? read_with_options(source, out) : read_plainly(source);
    // These errors are about other datagrams, and reading them takes them off the socket.
  } while (length == -EINTR || length == -ECONNREFUSED || length == -EHOSTUNREACH);
  if (length < 0) return false;
  out.bytes = {buffer_.get(), static_cast<std::size_t>(length)};
  out.source_port = source.port();
  out.fields.source = source.ip();
  out.fields.has_grh = !options_.grh_from_port || source_port_says_grh(out.source_port);
  return true;
}

ssize_t UdpReceiver::read_plainly(SocketAddress& source) noexcept {
  socklen_t size = SocketAddress::kRoom;
  return receive_from(fd_, {buffer_.get(), kReadMax}, MSG_DONTWAIT, source.room(), &size);
}

ssize_t UdpReceiver::read_with_options(SocketAddress& source, Coalesced& out) noexcept {
  alignas(cmsghdr) std::uint8_t control[256] = {};
  iovec part{buffer_.get(), kReadMax};
  msghdr message{};
  message.msg_name = source.room();
  message.msg_namelen = SocketAddress::kRoom;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t length = receive_message(fd_, message, MSG_DONTWAIT);
  if (length < 0) return length;
  for (const cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr;
       c = CMSG_NXTHDR(&message, const_cast<cmsghdr*>(c))) {
    const auto is = [c](int level, int type) {
      return c->cmsg_level == level && c->cmsg_type == type;
    };
    if (is(SOL_UDP, UDP_GRO)) {
      out.segment_bytes = static_cast<std::size_t>(std::max(value_of<int>(c), 0));
    } else if (is(IPPROTO_IP, IP_PKTINFO)) {
      out.fields.destination = IpAddress::v4(ntohl(value_of<in_pktinfo>(c).ipi_addr.s_addr));
    } else if (is(IPPROTO_IPV6, IPV6_PKTINFO)) {
      out.fields.destination = address_of(value_of<in6_pktinfo>(c).ipi6_addr);
    } else if (is(IPPROTO_IP, IP_TOS)) {
      out.fields.traffic_class = value_of<std::uint8_t>(c);
    } else if (is(IPPROTO_IPV6, IPV6_TCLASS)) {
      out.fields.traffic_class = static_cast<std::uint8_t>(value_of<int>(c));
    } else if (is(IPPROTO_IP, IP_TTL) || is(IPPROTO_IPV6, IPV6_HOPLIMIT)) {
      out.fields.hop_limit = static_cast<std::uint8_t>(value_of<int>(c));
    } else if (is(IPPROTO_IPV6, kIpv6FlowInfo)) {
      out.fields.flow_label = ntohl(value_of<std::uint32_t>(c)) & 0xfffff;
    }
  }
  return length;
}

// Returns the number of packets, dropped ones included.
std::size_t UdpReceiver::deliver(const Coalesced& buffer, RxSink& sink) noexcept {
  if (buffer.fields.source.is_v4() != buffer.fields.destination.is_v4()) {
    drops_.count(DropReason::kBadIcrc);  // no ICRC is right between two families
    return 1;
  }
  const IpAddress& source = buffer.fields.source;
  const IpAddress& destination = buffer.fields.destination;
  const wire::IcrcFlow flow(source, destination, buffer.source_port, options_.port);
  wire::IcrcFlow::Sized sized;
  // `next_id` is the IP identification that a sender of ours gives.
  const auto is_packet = [&](std::span<const std::uint8_t> bytes, std::size_t next_id) {
    if (bytes.size() < kLeast) return false;
    if (sized.size() != bytes.size()) sized.be_of(flow, bytes.size());
    const auto ip_id =
        sized.verify(bytes, static_cast<std::uint16_t>(next_id), options_.ids_accepted);
    if (ip_id && *ip_id != 0 && *ip_id != next_id) statistics_.foreign_ids.add();
    return ip_id.has_value();
  };
  Cutter cutter(buffer.bytes, buffer.segment_bytes, takes_bundles(options_, destination, source));
  const bool is_bundle = cutter.follows_table();
  Run run(buffer.fields, sink);
  std::size_t count = 0;
  do {
    const auto piece = cutter.next();
    if (is_packet(piece, count)) {
      run.add(piece);
    } else if (is_bundle && count == 0 && is_packet(buffer.bytes, 0)) {
      // The datagram is one packet that ends like a bundle by chance.
      run.add(buffer.bytes);
      cutter = Cutter({}, 0, false);
    } else if (piece.size() >= kLeast) {
      drops_.count(DropReason::kBadIcrc);
    } else if (piece.size() != kKickBytes) {
      drops_.count(DropReason::kTooShort);
    }
    ++count;
  } while (!cutter.is_done());
  run.deliver();
  return count;
}

}  // namespace verbena::link
