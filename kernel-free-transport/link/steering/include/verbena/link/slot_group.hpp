// SPDX-License-Identifier: BSD-2-Clause
// All receiving sockets of one address: many processes share UDP port 4791. The daemon owns a
// group per port as long as it lives; a context gets a duplicate of one socket's descriptor. The
// kernel hands each datagram to the socket that the upper ten bits of the destination QPN name, by
// a filter of a few instructions:
//
//     destination QPN   23        14 13               0
//                      +------------+------------------+
//                      |    slot    |  queue pair      |
//                      +------------+------------------+
//     slot is an extra   -> the socket it was mapped to
//     slot < sockets     -> socket [slot]
//     else, or too short -> socket 0, the daemon's own
//
// What a SenderRule forbids goes to socket 0 before that, and there the kernel throws it away: the
// packets of strangers take no room in a context's socket and wake no thread.
//
// Sockets are only ever added at the end, because the kernel moves the last socket into the place
// of one that closes. The group's own descriptors keep every socket open, so a context that dies
// changes nothing. A released slot is drained and used again. Extra slots (for a context with more
// queue pairs than a slot has numbers) are given from the top, 1022 downwards. When the sockets
// have come up to there, extra slots are taken from the released ones, whose own sockets are then
// unused. Slot 1023 belongs to the multicast QPN. One thread.
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
  // The size that each socket asks for. The kernel may limit it to net.core.rmem_max.
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

  // Gives a context a slot of its own: a released one, drained, or a new one at the end.
  Result<Slot, SocketError> add_slot();
  // Gives the context that owns `slot` one more slot number.
  Result<Slot, SocketError> add_extra_slot(Slot slot);
  // Frees the slot and the extra slots of a context that has died.
  void release(Slot slot);

  // Returns the socket of slot 0 or of a slot that add_slot() gave. It stays the group's: send a
  // duplicate (SCM_RIGHTS makes one), never connect() it, never close it.
  int fd(Slot slot) const;
  // Throws away what waits in the slot's socket; returns the number of datagrams.
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
