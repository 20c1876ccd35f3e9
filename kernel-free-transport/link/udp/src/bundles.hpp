// SPDX-License-Identifier: BSD-2-Clause
// What both halves of the UDP link agree on.
#pragma once

#include <cstddef>

#include "verbena/link/udp_link.hpp"

namespace verbena::link {

// A datagram that only wakes its receiver: as far as the destination QPN, for the steering.
inline constexpr std::size_t kKickBytes = 8;

// Packets that make one segmented send stay together on their way within a host: the receiver gets
// one buffer and divides it. A device of ours does so (division.hpp) without the kernel's word,
// too, so between two of them packets of one queue pair may as well be one datagram, a bundle, of
// any lengths: without the kernel's price for segments, and with the first packet of a message
// among them, which is longer than the others.
//
// Peers that are devices of ours, on this host: those of the same address, and those that have no
// address but a loopback one where there are no foreign ones.
inline bool has_own_peers_only(const UdpOptions& options, const IpAddress& local) noexcept {
  return options.grh_from_port && local.is_v4_loopback();
}
inline bool takes_bundles(const UdpOptions& options, const IpAddress& local,
                          const IpAddress& peer) noexcept {
  return peer == local || (has_own_peers_only(options, local) && peer.is_v4_loopback());
}

}  // namespace verbena::link
