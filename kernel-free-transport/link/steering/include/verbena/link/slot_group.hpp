// SPDX-License-Identifier: BSD-2-Clause
// All receiving sockets of one address: UDP port 4791 shared by many processes. The daemon owns a
// group per port for ever; a context gets a duplicate of one socket's descriptor. The kernel hands
// each datagram to the socket that the upper ten bits of the destination QPN name, by a filter of a
// few instructions:
//
//     destination QPN   23        14 13               0
//                      +------------+------------------+
//                      |    slot    |  queue pair      |
//                      +------------+------------------+
//     slot is an extra   -> the socket it was mapped to
//     slot < sockets     -> socket [slot]
//     else, or too short -> socket 0, the daemon's own
//
// Before that, what a SenderRule forbids goes to socket 0, too, and there the kernel throws it
// away: what strangers send takes no room in a context's socket and wakes nobody.
//
// Sockets are only ever added at the end, because a socket that closes makes the kernel move the
// last one into its place; the group's own descriptors keep every one open, so a context that
// dies changes nothing. A released slot is drained and used again. Extra slots (a context with
// more queue pairs than a slot has numbers) are given from the top, 1022 downwards, and where
// sockets have come up to there, from those that are released: such a one's own socket rests
// meanwhile. 1023 is the multicast QPN's. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "verbena/base/address.hpp"
#include "verbena/base/result.hpp"
#include "verbena/base/types.hpp"
#include "verbena/link/socket_error.hpp"
#include "verbena/link/source_ports.hpp"

namespace verbena::link {

struct SlotGroupOptions {
  std::uint16_t port = kRoceUdpPort;
  // Asked of the kernel for each socket; it gives what net.core.rmem_max allows.
  int receive_buffer_bytes = 4 << 20;
  std::uint32_t scope_id = 0;  // for link-local IPv6 addresses
  SenderRule senders{};
};

class SlotGroup {
 public:
  using Slot = std::uint32_t;
  static constexpr Slot kMulticastSlot = (1u << Qpn::kSlotBits) - 1;

  // Binds the daemon's own socket (slot 0).
  static Result<SlotGroup, SocketError> open(const IpAddress& local,
                                             const SlotGroupOptions& options = {});
  ~SlotGroup();
  SlotGroup(SlotGroup&& other) noexcept;
  SlotGroup& operator=(SlotGroup&&) = delete;

  // A slot of its own for a context: one released before, drained, or a new one at the end.
  Result<Slot, SocketError> add_slot();
  // One more slot number for the context that owns `slot`.
  Result<Slot, SocketError> add_extra_slot(Slot slot);
  // The context has died: its slot and its extra slots are free for others.
  void release(Slot slot);

  // The socket of a slot that add_slot() gave, or of slot 0. Stays the group's: send a duplicate
  // (SCM_RIGHTS makes one). Never connect() it, never close it.
  int fd(Slot slot) const;
  // The slot whose socket gets packets for slot number `slot`, as the filter decides.
  Slot owner_of(Slot slot) const;
  // Throws away what waits in the slot's socket; returns how many datagrams that were.
  std::size_t drain(Slot slot);

  const IpAddress& local() const { return local_; }
  std::size_t sockets() const { return fds_.size(); }

 private:
  SlotGroup(const IpAddress& local, const SlotGroupOptions& options)
      : local_(local), options_(options) {}
  Result<bool, SocketError> attach_filter();
  SocketError no_slot_left() const;

  IpAddress local_;
  SlotGroupOptions options_;
  std::vector<int> fds_;        // by slot
  std::vector<Slot> free_;      // released
  std::map<Slot, Slot> extra_;  // extra slot -> slot
};

}  // namespace verbena::link
