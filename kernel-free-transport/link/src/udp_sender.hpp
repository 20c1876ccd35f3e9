// The sending half of a UdpLink: its sockets, and how a batch becomes few system calls.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "header_option.hpp"
#include "segment_option.hpp"
#include "socket_address.hpp"
#include "verbena/link/udp_link.hpp"
#include "verbena/wire/icrc.hpp"

namespace verbena::link {

class UdpSender {
 public:
  UdpSender(const IpAddress& local, const UdpOptions& options, UdpStatistics& statistics);
  ~UdpSender();
  UdpSender(const UdpSender&) = delete;
  UdpSender& operator=(const UdpSender&) = delete;

  // Opens the first socket, so that what fails fails early.
  std::optional<SocketError> open();

  // Returns how many of the `count` packets from `first` on were taken.
  std::size_t send(wire::TxBatch& batch, std::size_t first, std::size_t count, Qpn flow,
                   std::optional<Damage> damage) noexcept;
  // False: nothing was sent, it wants a batch.
  bool send_short(wire::ShortPacket& packet, Qpn flow) noexcept;
  void kick(const IpAddress& address, std::uint32_t slot) noexcept;
  bool may_bundle(const IpAddress& destination) const noexcept;

  struct Calls {
    std::uint64_t all = 0;
    // For more than one packet.
    std::uint64_t segmented = 0;
    std::uint64_t bundles = 0;
  };
  Calls calls() const noexcept;

 private:
  using Packets = std::span<const wire::TxBatch::Packet>;
  enum class Outcome { kTaken, kFull, kNotTogether };

  // A socket with a port of one parity, and the last flows that were computed for it.
  struct Socket {
    Published<int> fd{-1};
    std::uint16_t port = 0;

    struct Entry {
      IpAddress destination;
      wire::IcrcFlow flow;
    };
    static constexpr std::size_t kEntries = 8;
    Lock lock;  // only ever tried: who does not get it does without what it guards
    std::array<Entry, kEntries> cache;
    SegmentOption segments;
    HeaderOption header;
    OwnedCounter calls, segmented_calls, bundles;  // made under the lock
  };
  static constexpr unsigned kSocketsMax = 16;  // of each parity

  Socket* socket_for(Qpn flow, bool has_grh) noexcept;
  bool open_socket(Socket& socket, bool has_grh, SocketError* error) noexcept;
  int bound_socket(bool has_grh, std::uint16_t& port, SocketError* error) const noexcept;
  void set_options(int fd) const noexcept;
  wire::IcrcFlow compute_flow(const Socket& socket, const IpAddress& destination) const noexcept;
  // Under the socket's lock.
  const wire::IcrcFlow& cached_flow(Socket& socket, const IpAddress& destination) noexcept;

  // Packets that go at once.
  struct Run {
    Packets packets;
    bool is_bundle = false;  // else, if there are several, segments
  };
  Run run_in(const wire::TxBatch& batch, Packets packets) const noexcept;
  Outcome send_run(wire::TxBatch& batch, const Run& run, Socket& socket,
                   std::optional<Damage> damage) noexcept;
  // What is sent at once: one datagram, or packets that the kernel cuts into segments of so many
  // bytes.
  struct Message {
    std::span<const std::uint8_t> bytes;
    std::size_t packets;
    bool is_bundle;
    std::size_t segment_bytes;  // 0: none; of a bundle, more than it has (kUncut)
    const wire::Destination& to;
  };
  Outcome transmit(Socket& socket, bool is_locked, const Message& message) noexcept;
  void count_call(Socket& socket, bool is_locked, const Message& message) noexcept;
  // As sendto and sendmsg return it.
  ssize_t send_plainly(const Socket& socket, const Message& message) const noexcept;
  ssize_t send_with_options(const Socket& socket, const Message& message,
                            bool names_header) const noexcept;

  IpAddress local_;
  UdpOptions options_;
  UdpStatistics& statistics_;
  Counter other_calls_, other_segmented_calls_, other_bundles_;  // made without a socket's lock
  Published<bool> can_segment_{true};
  Published<bool> can_bundle_{true};
  Lock open_lock_;
  std::array<std::array<Socket, kSocketsMax>, 2> sockets_;  // [has_grh][flow]
};

}  // namespace verbena::link
