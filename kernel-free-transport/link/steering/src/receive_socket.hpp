// SPDX-License-Identifier: BSD-2-Clause
// The sockets of which a group on one UDP port is made, and the filter by which the kernel steers
// what comes to it (slot_group.hpp, further_slots.hpp).
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "verbena/link/slot_group.hpp"

namespace verbena::link {

// From a slot to the index of a socket.
using SlotMap = std::map<SlotGroup::Slot, SlotGroup::Slot>;

SocketError socket_error(int error, const std::string& doing, const IpAddress& local);

// `alone`: the first of a group, which nobody else may have on this port. The kernel throws away
// what comes to it and the senders' rule forbids; the others get none of that (see steer()).
Result<int, SocketError> open_receive_socket(const IpAddress& local,
                                             const SlotGroupOptions& options, bool alone);

// Of the group that `fd` is in: slots in `extra` go to the socket of the index that is named there,
// others below `sockets` to the socket of that index, and to the first what is left and what the
// senders' rule forbids.
Result<bool, SocketError> steer(int fd, const IpAddress& local, const SenderRule& senders,
                                std::size_t sockets, const SlotMap& extra);

// Throws away what waits; returns how many datagrams that were.
std::size_t drain_socket(int fd);

}  // namespace verbena::link
