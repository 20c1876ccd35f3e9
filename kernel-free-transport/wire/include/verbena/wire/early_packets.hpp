// SPDX-License-Identifier: BSD-2-Clause
// Packets that came before their turn, copied, until those between have come: where packets
// overtake each other nothing is lost. Each half of a queue pair has one, under the queue pair's
// lock; it has no memory before the first gap.
//
//        base          kept packets and gaps            base + kMost
//    -----|-------------------------------------------------|----->
//    the packet that is due, missing                  not kept
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>

#include "verbena/wire/packet.hpp"

namespace verbena::wire {

class EarlyPackets {
 public:
  static constexpr std::uint32_t kMost = 256;
  // Or fewer, where they are long.
  static constexpr std::size_t kBytesMost = 280 * 1024;

  bool is_empty() const { return count_ == 0; }
  // So many are kept that the one which is due was rather lost than overtaken.
  bool tells_of_loss() const;
  // `due` is missing. False: it is not kept, because it is too far ahead, too long for the path MTU
  // or stands for several, or there is no memory.
  bool keep(const PacketView& packet, Psn due, std::uint32_t mtu);
  // The PSN of the first that is kept; not empty.
  Psn first() const;
  // The packet that is due, if it is kept; what was due before is forgotten. Its bytes stay until
  // the next keep().
  std::optional<PacketView> take(Psn due);
  void clear();

 private:
  std::uint8_t* slot_of(Psn psn) const { return room_.get() + psn.value() % most_ * slot_bytes_; }
  bool make_room(std::uint32_t mtu);
  void forget_before(Psn due);

  Psn base_;
  std::uint32_t count_ = 0;
  std::bitset<kMost> kept_;  // of base_ + i
  std::uint32_t most_ = 0;   // slots: a power of two
  std::size_t slot_bytes_ = 0;
  // Each begins with the packet's length.
  std::unique_ptr<std::uint8_t[]> room_;
};

}  // namespace verbena::wire
