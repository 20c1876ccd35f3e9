// SPDX-License-Identifier: BSD-2-Clause
// A short packet that goes by itself, with the acknowledgement that rides with it, if one is owed:
// most of what a queue pair sends that waits for answers. A way that takes it at once (a shared
// ring, a socket) is spared the bookkeeping of a batch; for all others it becomes one
// (TxBatch::take).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "verbena/wire/bth.hpp"
#include "verbena/wire/rider.hpp"
#include "verbena/wire/sizes.hpp"

namespace verbena::wire {

struct Destination;

struct ShortPacket {
  // Longer payloads are worth while to be sent from where they lie, where that can be done.
  static constexpr std::size_t kCopiedMost = 511;
  static constexpr std::size_t kPayloadMost = kMtuMax;

  // For whoever seals it: its rider as a packet, then this one, each with its ICRC.
  static constexpr std::size_t kRoomBefore = Rider::kPacketSize + kIcrcSize;
  std::array<std::uint8_t, kRoomBefore + kMaxHeaders + kPayloadMost + 3 + kIcrcSize> room;
  std::uint32_t length = 0;                  // BTH .. pad
  const Destination* destination = nullptr;  // outlives the sending
  std::optional<Rider> rider;
  std::uint32_t summed = 0;  // so many bytes at the end have the CRC-32 `sum`; 0: not known
  std::uint32_t sum = 0;

  std::uint8_t* bytes() { return room.data() + kRoomBefore; }
  const std::uint8_t* bytes() const { return room.data() + kRoomBefore; }
  std::span<const std::uint8_t> used() const { return {bytes(), length}; }
  Qpn dest_qp() const { return BthView(bytes()).dest_qp(); }
  // What a network would carry, from BTH to pad.
  std::uint64_t wire_packets() const { return rider ? 2 : 1; }
  std::uint64_t wire_bytes() const { return length + (rider ? Rider::kPacketSize : 0); }
};

}  // namespace verbena::wire
