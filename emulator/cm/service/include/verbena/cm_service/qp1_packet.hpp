// SPDX-License-Identifier: BSD-2-Clause
// A management datagram as a packet from QP1 to QP1: BTH (UD SEND only), DETH, 256 bytes. Pure.
//
//   0 BTH (12)   12 DETH: Q_Key 0x80010000, source QP 1 (8)   20 MAD (256)
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "verbena/cm/mad.hpp"
#include "verbena/wire/datagram.hpp"

namespace verbena::cm_service {

inline constexpr std::size_t kQp1PacketSize = 20 + cm::kMadSize;

// Returns false if the batch is full.
bool write_qp1_packet(wire::TxBatch& batch, const cm::MadBytes& mad,
                      const wire::Destination& destination, Psn psn);

// Returns the datagram inside. Returns nothing if the packet is not for QP1 or not of this shape.
std::optional<std::span<const std::uint8_t>> mad_of_packet(std::span<const std::uint8_t> packet);

}  // namespace verbena::cm_service
