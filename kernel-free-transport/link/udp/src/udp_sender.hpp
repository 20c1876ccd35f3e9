// SPDX-License-Identifier: BSD-2-Clause
// The sending half of a UdpLink: its sockets, and how a batch becomes few system calls.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "verbena/link/sending_socket.hpp"
#include "verbena/link/socket_address.hpp"
#include "verbena/link/udp_link.hpp"
#include "verbena/wire/icrc.hpp"

namespace verbena::link {

class UdpSender {
 public:
  UdpSender(const IpAddress& local, const UdpOptions& options, UdpStatistics& statistics);
  ~UdpSender();
  UdpSender(const UdpSender&) = delete;
  UdpSender& operator=(const UdpSender&) = delete;

  // Opens the first socket of each parity, so that a failure shows early. The others are opened
  // when they are needed.
  std::optional<SocketError> open();
  // Replaces open(): sends from these sockets, which it takes over, and opens none.
  std::optional<SocketError> adopt(std::span<const int> fds);

  // Returns how many of the `count` packets from `first` on were taken.
  std::size_t send(wire::TxBatch& batch, std::size_t first, std::size_t count, Qpn flow,
                   const Damage* damage = nullptr) noexcept;
  void kick(const IpAddress& address, std::uint32_t slot) noexcept;
  bool may_bundle(const IpAddress& destination) const noexcept;

 private:
  using Packets = std::span<const wire::TxBatch::Packet>;
  enum class Outcome { kTaken, kFull, kNotTogether };

  // A socket of the kernel, with a source port of one parity.
  struct Outlet {
    Outlet() = default;
    ~Outlet();
    Outlet(const Outlet&) = delete;
    Outlet& operator=(const Outlet&) = delete;
    void take(const SendingSocket& opened) noexcept;

    unsigned which = 0;  // its number among the sockets of its parity
    Published<int> fd{-1};
    std::uint16_t port = 0;
  };
  // A socket that is connected to an address to which many bundles go: without it the kernel looks
  // up the route for each send. Only bundles use it, because the IPv4 identifications of a
  // connected socket are not known beforehand. A bundle stays on this host, and both ends number
  // its packets 0, 1, 2 ... whatever the kernel does.
  struct Connection : Outlet {
    std::optional<IpAddress> destination;
    bool may_open = true;
    // Where the last bundles went, and how many in a row, while this socket led elsewhere or
    // nowhere.
    IpAddress wanted;
    std::uint32_t in_a_row = 0;
  };
  // An unconnected socket.
  struct Socket : Outlet {
    Lock lock;  // guards the connection; a thread that does not get it at once does without
    Connection connection;
  };
  static constexpr unsigned kSocketsMax = 16;  // of each parity

  Socket* socket_for(Qpn flow, bool has_grh) noexcept;
  // The sockets of one parity.
  using Pool = std::array<Socket, kSocketsMax>;
  [[gnu::cold]] Socket* open_in(Pool& pool, Socket& wanted, bool has_grh) noexcept;
  int open_socket(Outlet& outlet, bool has_grh) noexcept;
  wire::IcrcFlow compute_flow(const Outlet& outlet, const IpAddress& destination) const noexcept;
  // The next two are called under the socket's lock.
  bool leads_to(Connection& connection, const wire::Destination& to) noexcept;
  [[gnu::cold]] bool connect(Connection& connection, const wire::Destination& to) noexcept;

  // Packets that go in one send.
  struct Run {
    Packets packets;
    bool is_bundle = false;  // otherwise several packets go as segments
  };
  Run run_in(const wire::TxBatch& batch, Packets packets) const noexcept;
  Outcome send_run(wire::TxBatch& batch, const Run& run, Socket& socket,
                   const Damage* damage) noexcept;
  // The content of one send: one datagram, or packets that the kernel cuts into segments of
  // `segment_bytes`.
  struct Message {
    std::span<const std::uint8_t> bytes;
    std::size_t packets;
    bool is_bundle;
    std::size_t segment_bytes;  // 0: the kernel cuts nothing; kUncut: a bundle in pages
    const wire::Destination& to;
  };
  // Which of a socket's outlets a send takes, and where an ICRC starts there. A connection's is
  // used under the socket's lock.
  struct Way {
    Outlet& outlet;
    wire::IcrcFlow flow;
    bool is_connected = false;
  };
  Way way_for(Socket& socket, bool is_bundle, const wire::Destination& to) noexcept;
  Outcome transmit(const Way& way, const Message& message) noexcept;
  ssize_t try_to_send(const Way& way, const Message& message) const noexcept;
  bool belongs_in_pages(std::size_t bytes) const noexcept;
  [[gnu::cold]] void count_unreachable(std::size_t packets) noexcept;
  // These two return what sendto and sendmsg return, or minus the errno.
  ssize_t send_plainly(const Way& way, const Message& message) const noexcept;
  ssize_t send_with_options(const Way& way, const Message& message) const noexcept;
  class Control;  // the control messages of one send

  IpAddress local_;
  UdpOptions options_;
  UdpStatistics& statistics_;
  Published<bool> can_segment_{true};
  Published<bool> can_bundle_{true};
  bool may_open_ = true;
  Lock open_lock_;
  std::array<Pool, 2> sockets_;  // [has_grh][flow]
};

}  // namespace verbena::link
