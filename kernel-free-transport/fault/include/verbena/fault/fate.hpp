// SPDX-License-Identifier: BSD-2-Clause
// What happens to a packet when faults are injected: a pure function of the seed, of what the
// packet is called, and of how many times it was lost before. No stream of draws, which threads
// that come in another order would take in another order.
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/base/types.hpp"

namespace verbena::fault {

// Chances in parts per million.
struct Settings {
  std::uint32_t drop_ppm = 0;
  std::uint32_t corrupt_ppm = 0;
  std::uint32_t duplicate_ppm = 0;
  std::uint32_t reorder_ppm = 0;  // held back for reorder_ns while others pass
  TimeNs reorder_ns = 200'000;
  TimeNs delay_ns = 0;
  TimeNs jitter_ns = 0;                // up to this much more delay, evenly
  std::uint64_t bytes_per_second = 0;  // 0: no limit; packets from BTH to ICRC count
  std::uint64_t seed = 0;

  bool is_none() const {
    return (drop_ppm | corrupt_ppm | duplicate_ppm | reorder_ppm) == 0 && delay_ns == 0 &&
           jitter_ns == 0 && bytes_per_second == 0;
  }
  bool operator==(const Settings&) const = default;
};

enum class Direction : std::uint8_t { kRequest, kResponse, kManagement };

// A packet's name: the same in every run of the same program, on every link, however packets are
// packed and whenever they are acknowledged.
struct PacketName {
  std::uint64_t sender = 0;  // names the queue pair
  Direction direction = Direction::kRequest;
  std::uint32_t says = 0;    // of a response or management datagram: what it says
  std::uint64_t number = 0;  // counts from the sender's first packet in this direction
  bool operator==(const PacketName&) const = default;
};

struct Fate {
  bool is_lost = false;
  std::optional<std::uint32_t> damaged_bit;  // to be taken modulo the packet's length
  bool is_doubled = false;
  bool is_reordered = false;
  TimeNs delay_ns = 0;  // with jitter; what reordering and the rate add is not in it

  bool arrives() const { return !is_lost && !damaged_bit; }
  bool operator==(const Fate&) const = default;
};

// `losses`: how many times this packet did not arrive before.
Fate decide(const Settings& settings, const PacketName& name, std::uint32_t losses);

}  // namespace verbena::fault
