// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/wire/early_packets.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

namespace verbena::wire {
namespace {

using Length = std::uint32_t;
// TCP uses the same number.
constexpr std::uint32_t kOvertakenMost = 3;

}  // namespace

std::uint32_t EarlyPackets::most(std::size_t packet_bytes) {
  return static_cast<std::uint32_t>(
      std::min<std::size_t>(kMost, std::bit_floor(kBytesMost / packet_bytes)));
}

// Allocates at the first gap, and again if a reused queue pair has a larger path MTU.
bool EarlyPackets::make_room(std::uint32_t mtu) {
  const std::size_t bytes = sizeof(Length) + kMaxHeaders + mtu;
  if (room_ != nullptr && bytes <= slot_bytes_) return true;
  const std::uint32_t slots = most(bytes);
  room_.reset(new (std::nothrow) std::uint8_t[slots * bytes]);
  if (room_ == nullptr) return false;
  most_ = slots;
  slot_bytes_ = bytes;
  return true;
}

bool EarlyPackets::keep(const PacketView& packet, Psn due, std::uint32_t mtu) {
  if (packet.psns != 1 || packet.size() > kMaxHeaders + mtu) return false;
  if (is_empty()) {
    if (!make_room(mtu)) return false;
    base_ = due;
  } else {
    forget_before(due);
  }
  const auto ahead = static_cast<std::uint32_t>(packet.bth.psn.distance_from(base_));
  if (ahead >= most_) return false;
  if (kept_[ahead]) return true;
  std::uint8_t* const slot = slot_of(packet.bth.psn);
  const auto length = static_cast<Length>(packet.size());
  std::memcpy(slot, &length, sizeof length);
  packet.copy_to(slot + sizeof length);
  kept_[ahead] = true;
  ++count_;
  return true;
}

bool EarlyPackets::tells_of_loss() const { return count_ >= kOvertakenMost; }

Psn EarlyPackets::first() const {
  std::uint32_t ahead = 0;
  while (!kept_[ahead]) ++ahead;
  return base_ + ahead;
}

std::optional<PacketView> EarlyPackets::take(Psn due) {
  forget_before(due);
  if (is_empty() || !kept_[0]) return std::nullopt;
  kept_[0] = false;
  --count_;
  const std::uint8_t* const slot = slot_of(due);
  Length length = 0;
  std::memcpy(&length, slot, sizeof length);
  PacketView packet;
  if (parse_packet({slot + sizeof length, length}, slot + sizeof length, packet))
    return std::nullopt;
  return packet;
}

void EarlyPackets::forget_before(Psn due) {
  const std::int32_t ahead = due.distance_from(base_);
  if (is_empty() || ahead <= 0) return;
  if (static_cast<std::uint32_t>(ahead) >= kMost) return clear();
  kept_ >>= static_cast<std::size_t>(ahead);
  base_ = due;
  count_ = static_cast<std::uint32_t>(kept_.count());
}

void EarlyPackets::clear() {
  kept_.reset();
  count_ = 0;
}

}  // namespace verbena::wire
