// SPDX-License-Identifier: BSD-2-Clause
// Packets that stand for several (wire/datagram.hpp): how much of a payload travels at once.
#include <algorithm>

#include "verbena/requester/requester.hpp"

namespace verbena::requester {

// Of one that others follow all may go at once: they are written while it is read.
std::uint32_t Requester::merged_most_of(const SendEntry& entry) {
  const std::uint64_t in_a_row = std::uint64_t{entry.length} * (unsent() > 1 ? 2 : 1);
  return endpoint_.packing().merged_most_of(in_a_row);
}

bool Requester::may_be_packed(const SendEntry& entry) {
  if (entry.packets < 2 || endpoint_.transport != Transport::kRc) return false;
  return merged_most_of(entry) >= 2 * endpoint_.mtu;
}

std::uint32_t Requester::psns_of_packed(std::uint32_t position, Psn psn) {
  const SendEntry& entry = queue_.at(position);
  const std::uint32_t index = static_cast<std::uint32_t>(psn.distance_from(entry.first));
  return wire::Path::Packing::psns_at(index, entry.packets, merged_most_of(entry), endpoint_.mtu);
}

}  // namespace verbena::requester
