// SPDX-License-Identifier: BSD-2-Clause
// Copies of packets that arrived before their turn, kept until the packets before them arrive. If
// packets only overtake each other, nothing is lost. Each half of a queue pair has one, under the
// queue pair's lock; it allocates nothing before the first gap.
//
//        base          kept packets and gaps            base + kMost
//    -----|-------------------------------------------------|----->
//    the packet that is due (missing)                 not kept
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
  // Long packets are limited by their bytes. The system gives the memory as packets come.
  static constexpr std::size_t kBytesMost = 1120 * 1024;

  // Returns how many packets of at most so many bytes a receiver keeps. Those that are further
  // ahead of a lost packet go again.
  static std::uint32_t most(std::size_t packet_bytes);

  bool is_empty() const { return count_ == 0; }
  // Says whether so many are kept that the due packet was probably lost and not overtaken.
  bool tells_of_loss() const;
  // Keeps a packet while `due` is missing. Returns false if it does not, because the packet is too
  // far ahead, is too long for the path MTU or is merged, or because there is no memory.
  bool keep(const PacketView& packet, Psn due, std::uint32_t mtu);
  // Returns the PSN of the first kept packet. There must be one.
  Psn first() const;
  // Returns the packet that is due, if it is kept, and forgets all packets before it. Its bytes
  // stay valid until the next keep().
  std::optional<PacketView> take(Psn due);
  void clear();

 private:
  std::uint8_t* slot_of(Psn psn) const { return room_.get() + psn.value() % most_ * slot_bytes_; }
  bool make_room(std::uint32_t mtu);
  void forget_before(Psn due);

  Psn base_;
  std::uint32_t count_ = 0;
  std::bitset<kMost> kept_;  // bit i: the packet base_ + i
  std::uint32_t most_ = 0;   // number of slots, a power of two
  std::size_t slot_bytes_ = 0;
  // The slots. Each begins with the packet's length.
  std::unique_ptr<std::uint8_t[]> room_;
};

}  // namespace verbena::wire
