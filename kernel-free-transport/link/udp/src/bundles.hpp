// SPDX-License-Identifier: BSD-2-Clause
// What the sending and the receiving half of the UDP link agree on.
//
// Packets that make one segmented send stay together on their way within a host: the receiver gets
// one buffer and divides it. Between two devices of ours, packets of one queue pair may instead be
// one datagram of packets of any lengths, a bundle. It saves the kernel's price for segments, and
// the first packet of a message, which is longer than the others, is part of it. A table at the end
// marks the datagram as a bundle and says where it divides, each number with its upper byte first:
//
//   +--------+------+-----+--------+------+---------------------+------------+-----------+
//   | packet | ICRC | ... | packet | ICRC | length of each (16) | count (16) | mark (16) |
//   +--------+------+-----+--------+------+---------------------+------------+-----------+
//
// A length is that of a packet with its ICRC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "verbena/link/udp_link.hpp"
#include "verbena/wire/bytes.hpp"

namespace verbena::link {

// A datagram that only wakes its receiver ends after the destination QPN, which the steering needs.
inline constexpr std::size_t kKickBytes = 8;

inline constexpr std::uint16_t kBundleMark = 0x5642;
inline constexpr std::size_t kTableEnd = 4;  // the count and the mark
// The most bytes of packets in a bundle. With their table they are as long as a datagram may be.
inline constexpr std::size_t kBundleBytes = wire::TxBatch::kRunBytes - wire::TxBatch::kRoomBehind;
static_assert(wire::TxBatch::kRoomBehind >= 2 * wire::TxBatch::kMaxPackets + kTableEnd);

// Bundles go to devices of ours on this host: to those of the same address and, if all peers of an
// InfiniBand device at a loopback address are ours, to those of other loopback addresses.
inline bool has_own_peers_only(const UdpOptions& options, const IpAddress& local) noexcept {
  return options.grh_from_port && local.is_v4_loopback();
}
inline bool takes_bundles(const UdpOptions& options, const IpAddress& local,
                          const IpAddress& peer) noexcept {
  return peer == local || (has_own_peers_only(options, local) && peer.is_v4_loopback());
}

// Writes the table of these packets at `at`, where the last of them ends. Returns its length.
inline std::size_t write_bundle_table(std::span<const wire::TxBatch::Packet> packets,
                                      std::uint8_t* at) noexcept {
  std::uint8_t* next = at;
  for (const wire::TxBatch::Packet& p : packets) {
    wire::store_be16(next, static_cast<std::uint16_t>(p.length + wire::kIcrcSize));
    next += 2;
  }
  wire::store_be16(next, static_cast<std::uint16_t>(packets.size()));
  wire::store_be16(next + 2, kBundleMark);
  return static_cast<std::size_t>(next + kTableEnd - at);
}

// Returns the lengths in a datagram's table, whose sum is right; empty if the datagram is no
// bundle.
inline std::span<const std::uint8_t> bundle_lengths(
    std::span<const std::uint8_t> datagram) noexcept {
  const std::size_t size = datagram.size();
  if (size < kTableEnd || wire::load_be16(datagram.data() + size - 2) != kBundleMark) return {};
  const std::size_t count = wire::load_be16(datagram.data() + size - kTableEnd);
  const std::size_t table = 2 * count + kTableEnd;
  if (count < 2 || count > wire::TxBatch::kMaxPackets || table > size) return {};
  const auto lengths = datagram.subspan(size - table, 2 * count);
  std::size_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += wire::load_be16(lengths.data() + 2 * i);
  return sum + table == size ? lengths : std::span<const std::uint8_t>{};
}

}  // namespace verbena::link
