// SPDX-License-Identifier: BSD-2-Clause
// What happens to a packet when faults are injected: a pure function of the seed, the packet's
// name, and how many times it was lost before. It does not draw from a common random stream,
// because threads that send in another order would get other numbers.
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/base/types.hpp"

namespace verbena::fault {

// Faults by chance. Chances are in parts per million.
struct Settings {
  std::uint32_t drop_ppm = 0;
  std::uint32_t corrupt_ppm = 0;
  std::uint32_t duplicate_ppm = 0;
  std::uint32_t reorder_ppm = 0;  // held back for reorder_ns while others pass
  TimeNs reorder_ns = 200'000;
  TimeNs delay_ns = 0;
  TimeNs jitter_ns = 0;                // up to this much more delay, evenly distributed
  std::uint64_t bytes_per_second = 0;  // 0: no limit; counts from BTH to ICRC
  std::uint64_t seed = 0;

  bool is_none() const {
    return (drop_ppm | corrupt_ppm | duplicate_ppm | reorder_ppm) == 0 && delay_ns == 0 &&
           jitter_ns == 0 && bytes_per_second == 0;
  }
  bool operator==(const Settings&) const = default;
};

enum class Direction : std::uint8_t { kRequest, kResponse, kManagement };

// A packet's name. It is the same in every run of a program, on every link, however packets are
// batched and whenever they are acknowledged.
struct PacketName {
  std::uint64_t sender = 0;  // names the queue pair
  Direction direction = Direction::kRequest;
  std::uint32_t says = 0;    // content of a response or management datagram
  std::uint64_t number = 0;  // counted from the sender's first packet in this direction
  bool operator==(const PacketName&) const = default;
};

struct Fate {
  bool is_lost = false;
  std::optional<std::uint32_t> damaged_bit;  // modulo the packet's length
  bool is_doubled = false;
  bool is_reordered = false;
  TimeNs delay_ns = 0;  // with jitter, but without reordering and rate

  bool arrives() const { return !is_lost && !damaged_bit; }
  bool operator==(const Fate&) const = default;
};

// Returns the fate of a packet that did not arrive `losses` times before.
Fate decide(const Settings& settings, const PacketName& name, std::uint32_t losses);

}  // namespace verbena::fault
