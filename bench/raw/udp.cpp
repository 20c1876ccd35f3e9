// SPDX-License-Identifier: BSD-2-Clause
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "raw.hpp"
#include "verbena/base/lock.hpp"
#include "verbena/link/udp_link.hpp"
#include "verbena/wire/crc32.hpp"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace verbena::bench {
namespace {

constexpr int kRoundTripsPerSample = 20;
constexpr std::size_t kDatagramMax = 65507;
constexpr std::size_t kSegmentsMax = 64;
constexpr TimeNs kStreamWindowNs = 3'000'000;

struct Socket {
  Socket() {
    fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&any), sizeof any) < 0) fail("socket");
    socklen_t size = sizeof address;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    const int bytes = 4 << 20;
    ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  }
  ~Socket() { ::close(fd); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // Connects the socket, as a device does to an address that it uses often: the route is looked up
  // once, and the kernel keeps long payloads in pages, which costs less.
  void lead_to(const Socket& peer, std::size_t bytes) const {
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&peer.address), sizeof peer.address) < 0) {
      fail("connect");
    }
    const int size = link::kUncut;
    if (bytes > link::kInOnePieceMost) {
      ::setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof size);
    }
  }
  void send(const char* data, std::size_t length) const {
    while (::send(fd, data, length, 0) < 0) {
      if (errno != EINTR && errno != ENOBUFS && errno != EAGAIN) fail("send");
    }
  }
  void send_to(const Socket& peer, const char* data, std::size_t length) const {
    while (::sendto(fd, data, length, 0, reinterpret_cast<const sockaddr*>(&peer.address),
                    sizeof peer.address) < 0) {
      if (errno != EINTR && errno != ENOBUFS && errno != EAGAIN) fail("sendto");
    }
  }
  // Receives like a receiver that needs to know where a coalesced buffer divides.
  void receive_coalesced(char* data) const {
    sockaddr_in from{};
    char control[64];
    iovec part{data, kDatagramMax};
    msghdr message{};
    message.msg_name = &from;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    for (;;) {
      message.msg_namelen = sizeof from;
      message.msg_controllen = sizeof control;
      if (::recvmsg(fd, &message, MSG_DONTWAIT) >= 0) return;
      if (errno != EINTR && errno != EAGAIN) fail("recvmsg");
    }
  }
  void receive(char* data, bool blocking) const {
    while (::recv(fd, data, kDatagramMax, blocking ? 0 : MSG_DONTWAIT) < 0) {
      if (errno != EINTR && errno != EAGAIN) fail("recv");
    }
  }

  int fd = -1;
  sockaddr_in address{};
};

struct Progress {
  std::atomic<std::uint64_t> received{0};
};

Progress* shared_progress() {
  void* at =
      ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) fail("mmap");
  return new (at) Progress;
}

// The work for each packet besides sending and receiving it.
struct Nothing {
  void write(std::uint8_t*, std::size_t) {}
  void read(const std::uint8_t*, std::size_t) {}
};

// The least work of a transport: packets are copied and summed from an application's memory, summed
// again, and copied to another application's memory. Several are handled at a time, so that the
// summed bytes are still in the cache when they are copied.
class Sealed {
 public:
  explicit Sealed(std::size_t packet) : packet_(packet) {}
  void write(std::uint8_t* to, std::size_t length) {
    for (std::size_t at = 0; at < length; at += packet_) {
      std::uint32_t sum = 0;
      (void)wire::crc32_copy(to + at, application_.data() + at, std::min(packet_, length - at),
                             sum);
      sum_ ^= sum;
    }
  }
  void read(const std::uint8_t* from, std::size_t length) {
    for (std::size_t at = 0; at < length; at += kTogether) {
      const std::size_t end = std::min(at + kTogether, length);
      for (std::size_t p = at; p < end; p += packet_) {
        sum_ ^= wire::crc32(0, from + p, std::min(packet_, end - p));
      }
      std::memcpy(application_.data() + at, from + at, end - at);
    }
  }

 private:
  static constexpr std::size_t kTogether = 16 * 1024;

  std::size_t packet_;
  std::vector<std::uint8_t> application_ = std::vector<std::uint8_t>(65536);
  std::uint32_t sum_ = 0;
};

// Counts the payload bytes that arrive, in whole buffers.
template <typename Work>
[[noreturn]] void drink(const Socket& socket, Progress& progress, Work work) {
  std::vector<std::uint8_t> room(65536);
  for (;;) {
    const ssize_t n = ::recv(socket.fd, room.data(), room.size(), MSG_DONTWAIT);
    if (n <= 0) continue;
    work.read(room.data(), static_cast<std::size_t>(n));
    progress.received.fetch_add(static_cast<std::uint64_t>(n));
  }
}

void send_segmented(const Socket& from, const Socket& to, void* data, std::size_t length,
                    std::size_t segment) {
  iovec part{data, length};
  msghdr message{};
  message.msg_name = const_cast<sockaddr_in*>(&to.address);
  message.msg_namelen = sizeof to.address;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(std::uint16_t))] = {};
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = IPPROTO_UDP;
  header->cmsg_type = UDP_SEGMENT;
  header->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
  const auto size = static_cast<std::uint16_t>(segment);
  std::memcpy(CMSG_DATA(header), &size, sizeof size);
  while (::sendmsg(from.fd, &message, 0) < 0) {
    if (errno != EINTR && errno != ENOBUFS && errno != EAGAIN) fail("sendmsg with UDP_SEGMENT");
  }
}

}  // namespace

namespace {

// Measures round trips between two sides that send and receive in the same way.
template <typename Send, typename Receive>
Quantiles round_trip_us(const Socket& here, const Socket& there, double seconds, Send&& send,
                        Receive&& receive) {
  const Child echo([&] {
    for (;;) {
      receive(there);
      send(there, here);
    }
  });
  std::vector<double> samples;
  const Deadline deadline(seconds);
  while (!deadline.passed()) {
    const TimeNs start = link::monotonic_now_ns();
    for (int i = 0; i < kRoundTripsPerSample; ++i) {
      send(here, there);
      receive(here);
    }
    samples.push_back(static_cast<double>(link::monotonic_now_ns() - start) / 1e3 /
                      kRoundTripsPerSample);
  }
  return quantiles(std::move(samples));
}

}  // namespace

Quantiles udp_round_trip_us(std::size_t bytes, bool blocking, double seconds) {
  const Socket here;
  const Socket there;
  std::vector<char> data(kDatagramMax);
  return round_trip_us(
      here, there, seconds,
      [&](const Socket& from, const Socket& to) { from.send_to(to, data.data(), bytes); },
      [&](const Socket& at) { at.receive(data.data(), blocking); });
}

Quantiles udp_acknowledged_round_trip_us(std::size_t bytes, double seconds) {
  constexpr std::size_t kPath = 1024;
  constexpr std::size_t kHeaders = 16;  // BTH and ICRC
  constexpr std::size_t kAcknowledgement = 20;
  const std::size_t segment = std::min(bytes, kPath) + kHeaders;
  const std::size_t whole = (bytes + kPath - 1) / kPath * segment + kAcknowledgement;
  const Socket here;
  const Socket there;
  const int on = 1;
  ::setsockopt(here.fd, IPPROTO_UDP, UDP_GRO, &on, sizeof on);
  ::setsockopt(there.fd, IPPROTO_UDP, UDP_GRO, &on, sizeof on);
  std::vector<char> data(kDatagramMax);
  return round_trip_us(
      here, there, seconds,
      [&](const Socket& from, const Socket& to) {
        send_segmented(from, to, data.data(), whole, segment);
      },
      [&](const Socket& at) { at.receive_coalesced(data.data()); });
}

Quantiles udp_sealed_round_trip_us(std::size_t bytes, double seconds) {
  const Socket here;
  const Socket there;
  const Socket way_there;
  const Socket way_back;
  way_there.lead_to(there, bytes);
  way_back.lead_to(here, bytes);
  std::vector<std::uint8_t> data(kDatagramMax);
  Sealed work(bytes);
  return round_trip_us(
      here, there, seconds,
      [&](const Socket& from, const Socket&) {
        work.write(data.data(), bytes);
        (&from == &here ? way_there : way_back)
            .send(reinterpret_cast<const char*>(data.data()), bytes);
      },
      [&](const Socket& at) {
        at.receive(reinterpret_cast<char*>(data.data()), false);
        work.read(data.data(), bytes);
      });
}

namespace {

template <typename Work>
double stream_mb_s(std::size_t packet_bytes, double seconds, Work work) {
  const Socket from;
  const Socket to;
  const int on = 1;
  ::setsockopt(to.fd, IPPROTO_UDP, UDP_GRO, &on, sizeof on);
  int buffer = 0;
  socklen_t size = sizeof buffer;
  ::getsockopt(to.fd, SOL_SOCKET, SO_RCVBUF, &buffer, &size);
  Progress& progress = *shared_progress();
  const Child sink([&] { drink(to, progress, work); });

  const std::size_t chunk = std::min(kSegmentsMax, kDatagramMax / packet_bytes) * packet_bytes;
  // A segmented buffer is charged by about its length, so a quarter of the room is far from full.
  const std::uint64_t window =
      std::min<std::uint64_t>(256 * packet_bytes, static_cast<std::uint64_t>(buffer) / 4);
  std::vector<std::uint8_t> data(chunk);
  std::vector<double> samples;
  std::uint64_t sent = 0;
  std::uint64_t before = 0;
  TimeNs start = link::monotonic_now_ns();
  const Deadline deadline(seconds);
  while (!deadline.passed()) {
    while (sent + chunk > progress.received.load(std::memory_order_acquire) + window &&
           !deadline.passed()) {
      cpu_relax();
    }
    work.write(data.data(), chunk);
    send_segmented(from, to, data.data(), chunk, packet_bytes);
    sent += chunk;
    const TimeNs now = link::monotonic_now_ns();
    if (now - start < kStreamWindowNs) continue;
    const std::uint64_t received = progress.received.load();
    samples.push_back(static_cast<double>(received - before) * 1e3 /
                      static_cast<double>(now - start));
    before = received;
    start = now;
  }
  return quantiles(std::move(samples)).median;
}

}  // namespace

double udp_stream_mb_s(std::size_t packet_bytes, double seconds) {
  return stream_mb_s(packet_bytes, seconds, Nothing{});
}

double udp_sealed_stream_mb_s(std::size_t packet_bytes, double seconds) {
  return stream_mb_s(packet_bytes, seconds, Sealed(packet_bytes));
}

}  // namespace verbena::bench
