// SPDX-License-Identifier: BSD-2-Clause
#include "udp_sender.hpp"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "bundles.hpp"
#include "verbena/link/grh_port.hpp"
#include "verbena/link/sending_socket.hpp"
#include "verbena/link/socket_options.hpp"
#include "verbena/link/system_calls.hpp"
#include "verbena/link/uncancelled.hpp"
#include "verbena/wire/bth.hpp"
#include "verbena/wire/bytes.hpp"

namespace verbena::link {
namespace {

// The most segments that the kernel takes in one send: 64 (128 since 6.9).
constexpr std::size_t kSegmentsMax = 64;
// How many bundles in a row go to an address before a socket is connected to it. To connect costs
// as much as a few sends gain.
constexpr std::uint32_t kUntilConnected = 16;

// Returns whether the IP header fields are those that the sending sockets use by default.
bool has_usual_fields(const wire::Destination& to) {
  return to.traffic_class == 0 && to.hop_limit == kUsualHopLimit &&
         (to.address.is_v4() || to.flow_label == 0);
}

bool is_against_segments(ssize_t sent) {
  return sent == -EINVAL || sent == -EIO || sent == -EMSGSIZE || sent == -EOPNOTSUPP ||
         sent == -ENOPROTOOPT;
}

// Byte 4 of the BTH is outside the ICRC, so damage there would go unnoticed: it moves on by a byte.
void flip_bit(std::span<std::uint8_t> bytes, Damage damage) {
  std::size_t bit = damage.bit % (bytes.size() * 8);
  if (bit / 8 == 4) bit += 8;
  bytes[bit / 8] = static_cast<std::uint8_t>(bytes[bit / 8] ^ (1u << (bit % 8)));
}

// Returns a number that no two network namespaces share; 0: unknown. Linux tells it since 5.14.
std::uint64_t network_of(int fd) {
  std::uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  return ::getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

// Returns false only if the kernel says that two sockets are in different network namespaces.
bool are_in_one_network(int fd, int other) {
  const std::uint64_t network = network_of(fd);
  const std::uint64_t other_network = other < 0 ? 0 : network_of(other);
  return network == other_network || network == 0 || other_network == 0;
}

}  // namespace

// The control messages of one send: segment size, traffic class, hop limit, flow label.
class UdpSender::Control {
 public:
  template <typename T>
  void add(int level, int type, T value) {
    auto* header = reinterpret_cast<cmsghdr*>(bytes_ + used_);
    header->cmsg_level = level;
    header->cmsg_type = type;
    header->cmsg_len = CMSG_LEN(sizeof value);
    std::memcpy(CMSG_DATA(header), &value, sizeof value);
    used_ += CMSG_SPACE(sizeof value);
  }
  void attach_to(msghdr& message) {
    if (used_ == 0) return;
    message.msg_control = bytes_;
    message.msg_controllen = used_;
  }

 private:
  alignas(cmsghdr)
      std::uint8_t bytes_[CMSG_SPACE(sizeof(std::uint16_t)) + 3 * CMSG_SPACE(sizeof(int))] = {};
  std::size_t used_ = 0;
};

UdpSender::UdpSender(const IpAddress& local, const UdpOptions& options, UdpStatistics& statistics)
    : local_(local), options_(options), statistics_(statistics) {
  options_.tx_sockets = std::clamp(options_.tx_sockets, 1u, kSocketsMax);
  for (Pool& pool : sockets_) {
    for (unsigned i = 0; i < kSocketsMax; ++i) pool[i].which = pool[i].connection.which = i;
  }
}

UdpSender::~UdpSender() = default;

UdpSender::Outlet::~Outlet() {
  if (const int open = fd.read(); open >= 0) ::close(open);
}

std::optional<SocketError> UdpSender::open() {
  int error = open_socket(sockets_[1][0], true);
  // One socket of each parity is opened now, so that later no packet is lost for want of a
  // descriptor.
  if (error == 0 && options_.grh_from_port) error = open_socket(sockets_[0][0], false);
  if (error == 0) return std::nullopt;
  return sending_socket_error(error, local_);
}

std::optional<SocketError> UdpSender::adopt(std::span<const int> fds) {
  may_open_ = false;
  options_.tx_sockets = 1;
  std::size_t adopted = 0;
  for (const int fd : fds) {
    SocketAddress bound;
    socklen_t size = SocketAddress::kRoom;
    const bool is_bound = ::getsockname(fd, bound.room(), &size) == 0 && bound.port() != 0;
    const bool has_grh = !options_.grh_from_port || source_port_says_grh(bound.port());
    Socket& socket = sockets_[has_grh ? 1 : 0].front();
    if (!is_bound || socket.fd.read() >= 0) {
      ::close(fd);
      continue;
    }
    socket.take({fd, bound.port()});
    socket.connection.may_open = false;
    ++adopted;
  }
  if (adopted != 0) return std::nullopt;
  return SocketError{EMFILE, "no descriptor is left for a socket to send from"};
}

std::size_t UdpSender::send(wire::TxBatch& batch, std::size_t first, std::size_t count, Qpn flow,
                            const Damage* damage) noexcept {
  Packets rest = batch.packets().subspan(first, count);
  while (!rest.empty()) {
    const wire::Destination& to = batch.destination(rest.front());
    Run run = run_in(batch, rest);
    Socket* socket = socket_for(flow, to.has_grh);
    // Either no descriptor was left for a socket, or the address is of the other family.
    if (socket == nullptr || to.address.is_v4() != local_.is_v4()) {
      count_unreachable(run.packets.size());
      rest = rest.subspan(run.packets.size());
      continue;
    }
    Outcome outcome = send_run(batch, run, *socket, damage);
    if (outcome == Outcome::kNotTogether) {
      run = {rest.first(1)};
      outcome = send_run(batch, run, *socket, damage);
    }
    if (outcome == Outcome::kFull) break;
    rest = rest.subspan(run.packets.size());
  }
  return count - rest.size();
}

void UdpSender::kick(const IpAddress& address, std::uint32_t slot) noexcept {
  std::array<std::uint8_t, kKickBytes> bytes{};
  wire::store_be32(bytes.data() + 4, Qpn::from(slot, 0).value());
  Socket* socket = socket_for(Qpn(), true);
  if (socket == nullptr) return;
  (void)transmit({*socket, {}, false}, {bytes, 1, false, 0, {.address = address}});
}

// Returns the first packets, as many as may go in one send: to one destination and one queue pair
// (the receiving kernel steers the whole buffer by its first packet), back to back, and, unless
// they make a bundle, of one length but for a shorter last one.
UdpSender::Run UdpSender::run_in(const wire::TxBatch& batch, Packets packets) const noexcept {
  const wire::TxBatch::Packet& head = packets.front();
  const bool may_segment = can_segment_.read_relaxed();
  const bool may_bundle = this->may_bundle(batch.destination(head).address);
  if (!may_bundle && !may_segment) return {packets.first(1)};
  // Where the kernel makes no segments, it keeps no bundle in pages either.
  const std::size_t most = !may_segment ? kInOnePieceMost
                           : may_bundle ? kBundleBytes
                                        : wire::TxBatch::kRunBytes;
  // This is the whole word of the header. Its upper byte, which the network may change, is the same
  // in all packets that one queue pair sends.
  const auto dest_qp = [&](const wire::TxBatch::Packet& p) {
    return wire::load_le32(batch.start_of(p).data() + 4);
  };
  const std::uint32_t dest_qp_of_all = dest_qp(head);
  const std::size_t end = std::min(packets.size(), kSegmentsMax);
  std::size_t bytes = head.length + wire::kIcrcSize;
  std::size_t count = 1;
  for (bool goes_on = true; goes_on && count < end; ++count) {
    const wire::TxBatch::Packet& next = packets[count];
    const bool is_behind = next.offset == head.offset + bytes;
    bytes += next.length + wire::kIcrcSize;
    if (!is_behind || bytes > most || next.destination != head.destination ||
        (!may_bundle && next.length > head.length) || dest_qp(next) != dest_qp_of_all) {
      break;
    }
    goes_on = may_bundle || next.length == head.length;
  }
  return {packets.first(count), may_bundle && count > 1};
}

// The kernel numbers the segments of one send 0, 1, 2 ... in the IP identification, which the ICRC
// covers. It does so for a socket that probes the path MTU and is not connected.
UdpSender::Outcome UdpSender::send_run(wire::TxBatch& batch, const Run& run, Socket& socket,
                                       const Damage* damage) noexcept {
  const wire::Destination& to = batch.destination(run.packets.front());
  const Way way = way_for(socket, run.is_bundle, to);
  wire::IcrcFlow::Sized sized;
  std::uint16_t ip_id = 0;
  const auto head = batch.sealed_bytes(run.packets.front());
  std::size_t bytes = 0;
  for (const wire::TxBatch::Packet& p : run.packets) {
    const auto sealed = batch.sealed_bytes(p);
    if (sized.size() != sealed.size()) sized.be_of(way.flow, sealed.size());
    sized.seal(sealed, ip_id++, p.summed, p.sum);
    if (damage != nullptr) flip_bit(sealed, *damage);
    bytes += sealed.size();
  }
  // A bundle's table stands where the batch may go on, so those bytes are restored after the send.
  std::array<std::uint8_t, wire::TxBatch::kRoomBehind> behind;
  const auto room_behind = batch.room_behind(run.packets.back());
  std::size_t table = 0;
  if (run.is_bundle) {
    std::copy(room_behind.begin(), room_behind.end(), behind.begin());
    table = write_bundle_table(run.packets, room_behind.data());
  }
  Message message{{head.data(), bytes + table}, run.packets.size(), run.is_bundle, 0, to};
  if (message.packets > 1 && !run.is_bundle) message.segment_bytes = head.size();
  if (run.is_bundle && belongs_in_pages(bytes)) message.segment_bytes = kUncut;
  const Outcome outcome = transmit(way, message);
  if (run.is_bundle) std::copy_n(behind.begin(), table, room_behind.begin());
  if (way.is_connected) socket.lock.unlock();
  // The bit flips back if the packets will be offered again.
  if (damage != nullptr && outcome != Outcome::kTaken) {
    for (const wire::TxBatch::Packet& p : run.packets) flip_bit(batch.sealed_bytes(p), *damage);
  }
  return outcome;
}

// Keeps the socket's lock for its connection. send_run() gives it back when it has sent the
// packets.
UdpSender::Way UdpSender::way_for(Socket& socket, bool is_bundle,
                                  const wire::Destination& to) noexcept {
  if (is_bundle && socket.lock.try_lock()) {
    Connection& connection = socket.connection;
    if (leads_to(connection, to)) return {connection, compute_flow(connection, to.address), true};
    socket.lock.unlock();
  }
  return {socket, compute_flow(socket, to.address)};
}

UdpSender::Outcome UdpSender::transmit(const Way& way, const Message& message) noexcept {
  statistics_.send_calls.add();
  if (message.is_bundle) {
    statistics_.bundles.add();
  } else if (message.packets > 1) {
    statistics_.segmented_calls.add();
  }
  ssize_t sent = try_to_send(way, message);
  // A connected socket reports here that an earlier datagram found no receiver; this one was not
  // sent.
  if (sent == -ECONNREFUSED) sent = try_to_send(way, message);
  if (sent >= 0) return Outcome::kTaken;
  if (sent == -EAGAIN || sent == -ENOBUFS || sent == -ENOMEM) return Outcome::kFull;
  if (message.packets > 1 && is_against_segments(sent)) {
    // EIO says that the route has no checksum offload: segments will never work on it.
    if (sent == -EIO) can_segment_.publish(false);
    // With a bundle, all other errors mean that a loopback device has a shorter MTU.
    if (message.is_bundle && sent != -EIO) can_bundle_.publish(false);
    return Outcome::kNotTogether;
  }
  count_unreachable(message.packets);
  return Outcome::kTaken;
}

void UdpSender::count_unreachable(std::size_t packets) noexcept {
  statistics_.unreachable.add(packets);
  if (options_.send_failures != nullptr) options_.send_failures->add(packets);
}

ssize_t UdpSender::try_to_send(const Way& way, const Message& message) const noexcept {
  const bool is_plain = message.segment_bytes == 0 && has_usual_fields(message.to);
  return is_plain ? send_plainly(way, message) : send_with_options(way, message);
}

bool UdpSender::may_bundle(const IpAddress& destination) const noexcept {
  return can_bundle_.read_relaxed() && takes_bundles(options_, local_, destination);
}

// Returns whether the kernel should keep a bundle of this length in pages (kInOnePieceMost).
bool UdpSender::belongs_in_pages(std::size_t bytes) const noexcept {
  return bytes > kInOnePieceMost && can_segment_.read_relaxed();
}

ssize_t UdpSender::send_plainly(const Way& way, const Message& message) const noexcept {
  const SocketAddress address =
      way.is_connected ? SocketAddress()
                       : SocketAddress(message.to.address, options_.port, options_.scope_id);
  ssize_t sent = 0;
  do {
    sent = send_to(way.outlet.fd.read_relaxed(), message.bytes, MSG_DONTWAIT | MSG_NOSIGNAL,
                   way.is_connected ? nullptr : address.get(), address.size());
  } while (sent == -EINTR);
  return sent;
}

ssize_t UdpSender::send_with_options(const Way& way, const Message& message) const noexcept {
  const wire::Destination& to = message.to;
  Control control;
  if (message.segment_bytes > 0) {
    control.add(SOL_UDP, UDP_SEGMENT, static_cast<std::uint16_t>(message.segment_bytes));
  }
  if (!has_usual_fields(to)) {
    const bool v4 = to.address.is_v4();
    // The kernel takes no hop limit of 0.
    const int hops = std::max<int>(to.hop_limit, 1);
    control.add<int>(v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TOS : IPV6_TCLASS, to.traffic_class);
    control.add<int>(v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TTL : IPV6_HOPLIMIT, hops);
    if (!v4 && to.flow_label != 0) {
      control.add(IPPROTO_IPV6, kIpv6FlowInfo,
                  htonl(std::uint32_t{to.traffic_class} << 20 | to.flow_label));
    }
  }
  const SocketAddress address(to.address, options_.port, options_.scope_id);
  // The cast is safe because the kernel only reads what is sent.
  iovec part{const_cast<std::uint8_t*>(message.bytes.data()), message.bytes.size()};
  msghdr header{};
  if (!way.is_connected) {
    header.msg_name = const_cast<sockaddr*>(address.get());
    header.msg_namelen = address.size();
  }
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  control.attach_to(header);
  ssize_t sent = 0;
  do {
    sent = send_message(way.outlet.fd.read_relaxed(), header, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent == -EINTR);
  return sent;
}

wire::IcrcFlow UdpSender::compute_flow(const Outlet& outlet,
                                       const IpAddress& destination) const noexcept {
  return wire::IcrcFlow(local_, destination, outlet.port, options_.port);
}

bool UdpSender::leads_to(Connection& connection, const wire::Destination& to) noexcept {
  if (connection.destination == to.address) {
    connection.in_a_row = 0;
    return true;
  }
  connection.in_a_row = connection.wanted == to.address ? connection.in_a_row + 1 : 1;
  connection.wanted = to.address;
  if (!connection.may_open || connection.in_a_row < kUntilConnected) return false;
  connection.in_a_row = 0;
  return connect(connection, to);
}

bool UdpSender::connect(Connection& connection, const wire::Destination& to) noexcept {
  const Uncancelled uncancelled;
  const int saved = errno;
  connection.destination.reset();
  if (connection.fd.read() < 0) (void)open_socket(connection, to.has_grh);
  const int fd = connection.fd.read();
  const SocketAddress address(to.address, options_.port, options_.scope_id);
  connection.may_open = fd >= 0 && ::connect(fd, address.get(), address.size()) == 0;
  if (connection.may_open) connection.destination = to.address;
  errno = saved;
  return connection.may_open;
}

// Returns null only if no socket of this parity could be opened at all.
UdpSender::Socket* UdpSender::socket_for(Qpn flow, bool has_grh) noexcept {
  Pool& pool = sockets_[has_grh || !options_.grh_from_port ? 1 : 0];
  Socket& wanted = pool[flow.value() % options_.tx_sockets];
  return wanted.fd.read() >= 0 ? &wanted : open_in(pool, wanted, has_grh);
}

UdpSender::Socket* UdpSender::open_in(Pool& pool, Socket& wanted, bool has_grh) noexcept {
  const Guard guard(open_lock_);
  if (wanted.fd.read() >= 0) return &wanted;
  const int error = may_open_ ? open_socket(wanted, has_grh) : ENETUNREACH;
  if (error == 0) return &wanted;
  may_open_ = may_open_ && error != ENETUNREACH;
  // No descriptor is left, or the program has left the network. A socket that is open is shared.
  const auto is_open = [](const Socket& s) { return s.fd.read() >= 0; };
  const auto other = std::find_if(pool.begin(), pool.end(), is_open);
  return other == pool.end() ? nullptr : &*other;
}

// Returns 0 or an errno. A program may have entered another network namespace. What it opens there
// does not reach its peers, even if the namespace has the same address.
int UdpSender::open_socket(Outlet& outlet, bool has_grh) noexcept {
  const Uncancelled uncancelled;
  const int saved = errno;
  const auto opened = open_sending_socket(local_, options_, has_grh, outlet.which);
  const bool is_usable = opened && are_in_one_network(opened->fd, sockets_[1].front().fd.read());
  if (opened && !is_usable) ::close(opened->fd);
  errno = saved;
  if (!opened) return opened.error();
  if (!is_usable) return ENETUNREACH;
  outlet.take(*opened);
  return 0;
}

void UdpSender::Outlet::take(const SendingSocket& opened) noexcept {
  port = opened.port;
  fd.publish(opened.fd);
}

}  // namespace verbena::link
