// SPDX-License-Identifier: BSD-2-Clause
// The sockets of a group on one UDP port, and the filter by which the kernel steers packets to them
// (slot_group.hpp, further_slots.hpp).
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "verbena/link/slot_group.hpp"

namespace verbena::link {

// Maps a slot to the index of a socket.
using SlotMap = std::map<SlotGroup::Slot, SlotGroup::Slot>;

SocketError socket_error(int error, const std::string& doing, const IpAddress& local);

// Opens a receiving socket. `alone`: the first socket of a group, whose port no other socket may
// have. The kernel throws away what comes to the first socket and the senders' rule forbids; the
// others get no such packets (see steer()).
Result<int, SocketError> open_receive_socket(const IpAddress& local,
                                             const SlotGroupOptions& options, bool alone);

// Steers the group that `fd` is in: a slot in `extra` leads to the socket of the index that is
// named there, another slot below `sockets` to the socket of that index. All other packets, and
// those that the senders' rule forbids, go to the first socket.
Result<bool, SocketError> steer(int fd, const IpAddress& local, const SenderRule& senders,
                                std::size_t sockets, const SlotMap& extra);

// Throws away what waits; returns the number of datagrams.
std::size_t drain_socket(int fd);

}  // namespace verbena::link
