// SPDX-License-Identifier: BSD-2-Clause
// The link over UDP: exact RoCEv2 on the wire. Owned by one context, which gives it the receiving
// socket that the daemon bound and steers (slot_group.hpp). It opens the sending sockets itself, or
// is given them if it cannot: when the port is in another network namespace.
//
// Receiving: the socket is never connect()ed, which would break the steering of every other
// process. The link reads bundles and, unless all peers send bundles, coalesced buffers (UDP_GRO),
// cuts them into packets, verifies each ICRC and cuts it off.
//
// Sending: the sockets are unconnected and use path MTU discovery PROBE, so that the IP
// identification is known (0, or 0, 1, 2.. in a segmented buffer) and the ICRC over it is right. A
// run of packets of one length from one queue pair to another is one system call. To a device of
// ours on this host, packets of any lengths are one (a bundle, which takes a connected socket where
// many go). Several sockets, picked by the sending queue pair, have different ports, which keeps
// the kernel's coalescing per queue pair.
//
// Threads: one thread at a time may call receive(), any thread the rest, send() included.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "verbena/base/address.hpp"
#include "verbena/base/drop_reason.hpp"
#include "verbena/base/lock.hpp"
#include "verbena/base/result.hpp"
#include "verbena/link/link.hpp"
#include "verbena/link/socket_error.hpp"

namespace verbena::link {

struct UdpOptions {
  std::uint16_t port = kRoceUdpPort;  // the destination port of what is sent
  // The number of sending sockets of each parity (grh_port.hpp). All but the first are opened when
  // they are needed.
  unsigned tx_sockets = 4;
  int tx_buffer_bytes = 4 << 20;
  // The first port to send from (source_ports.hpp); 0: any that are free.
  std::uint16_t first_source_port = 0;
  // Whether RxDatagram's traffic class, hop limit, flow label and true destination are read from
  // the IP header, which costs 400 ns a read. Otherwise they are 0, 64, 0 and the local address.
  bool want_ip_fields = false;
  // True for InfiniBand persona: the source port says whether there is a GRH. False for RoCE: there
  // is always a GRH.
  bool grh_from_port = true;
  // The interface's index, for link-local IPv6 addresses.
  std::uint32_t scope_id = 0;
  // How many IP identifications a correct packet may have; 128 if every peer is one of ours, which
  // makes a damaged packet 512 times less likely to pass (wire/icrc.hpp).
  std::uint32_t ids_accepted = 0x10000;
  // Also counts what UdpStatistics counts as unreachable; outlives the link.
  Counter* send_failures = nullptr;
};

// Counts since the link was made.
struct UdpStatistics {
  Counter unreachable;  // packets that the system refused to carry
  Counter send_calls;
  // Send calls with several packets: as segments that the kernel cuts, or as a bundle.
  Counter segmented_calls;
  Counter bundles;
  OwnedCounter receive_calls;
  OwnedCounter foreign_ids;  // packets whose IP identification had to be recovered
};

// The kernel keeps a datagram's bytes in one piece of memory, or in pages if it is told to send
// segments. One piece costs less up to this size, pages cost less above it.
inline constexpr std::size_t kInOnePieceMost = 10 * 1024;
// A segment size that no datagram reaches: the kernel then uses pages and cuts nothing.
inline constexpr std::size_t kUncut = wire::TxBatch::kRunBytes;

class UdpSender;
class UdpReceiver;

class UdpLink final : public Link {
 public:
  // Takes over `rx_fd` and closes it at the end. `local` is the address that `rx_fd` is bound to,
  // or the unspecified one. `drops` outlives the link. If `senders` are given, they are taken over
  // as well: everything is sent from them (sending_socket.hpp), and no other is opened.
  static Result<std::unique_ptr<UdpLink>, SocketError> open(int rx_fd, const IpAddress& local,
                                                            const UdpOptions& options,
                                                            DropCounters& drops,
                                                            std::span<const int> senders = {});
  ~UdpLink() override;

  std::size_t send(wire::TxBatch& batch, Qpn flow) noexcept override;
  // Sends packets [first, first + count) of the batch.
  std::size_t send_part(wire::TxBatch& batch, std::size_t first, std::size_t count,
                        Qpn flow) noexcept;
  std::size_t send_damaged(wire::TxBatch& batch, Qpn flow, Damage damage) noexcept override;
  std::size_t receive(RxSink& sink, std::size_t budget) noexcept override;
  // Readable (level) while receive() would find something.
  int wait_fd() const noexcept;
  // Puts a duplicate of `other` in place of the socket.
  void leave_socket_for(int other) const noexcept;
  // How many packets of this size (BTH .. pad) the receiving side holds while it does not read. A
  // window may be that large if the far end is made like this one.
  std::uint32_t capacity_packets(std::size_t packet_bytes) const noexcept;

  // Returns whether packets of one queue pair to this address go in one send, whatever their
  // lengths.
  bool takes_bundles(const IpAddress& address) const noexcept;

  // From now on RxDatagram's traffic class, hop limit and flow label are what the IP header says,
  // at the cost that UdpOptions::want_ip_fields names. Under the receive lock.
  void want_header_fields() noexcept;

  // Wakes a thread that sleeps on the receiving socket of a slot, with a datagram that carries
  // nothing.
  void kick(const IpAddress& address, std::uint32_t slot) noexcept;

  const IpAddress& local() const noexcept { return local_; }
  const UdpStatistics& statistics() const { return statistics_; }

 private:
  UdpLink(int rx_fd, const IpAddress& local, const UdpOptions& options, DropCounters& drops);

  IpAddress local_;
  UdpStatistics statistics_;
  std::unique_ptr<UdpSender> sender_;
  std::unique_ptr<UdpReceiver> receiver_;
};

// Returns how many datagrams a socket holds if the kernel reports a receive buffer of
// `buffer_bytes`: each datagram costs its whole allocation, not its length.
std::uint32_t datagrams_held(std::uint64_t buffer_bytes, std::size_t payload_bytes) noexcept;

}  // namespace verbena::link
