// SPDX-License-Identifier: BSD-2-Clause
// Sums of many contexts' counters, as plain numbers.
#pragma once

#include <array>
#include <cstdint>

#include "verbena/base/port_counters.hpp"

namespace verbena::fabric {

struct Totals {
  std::array<std::uint64_t, kPortCounters> port{};
  std::array<std::uint64_t, kDropReasons> drops{};
  std::uint64_t link_downed = 0;  // how many times the port was taken down

  void add(const PortCounters& counters) {
    for (std::size_t i = 0; i < port.size(); ++i) {
      port[i] += counters.read(static_cast<PortCounter>(i));
    }
    for (std::size_t i = 0; i < drops.size(); ++i) {
      drops[i] += counters.drops.read(static_cast<DropReason>(i));
    }
  }
  // Returns what was counted since `earlier`.
  Totals since(const Totals& earlier) const {
    Totals rest = *this;
    for (std::size_t i = 0; i < port.size(); ++i) rest.port[i] -= earlier.port[i];
    for (std::size_t i = 0; i < drops.size(); ++i) rest.drops[i] -= earlier.drops[i];
    rest.link_downed -= earlier.link_downed;
    return rest;
  }
  std::uint64_t operator[](PortCounter c) const { return port[static_cast<std::size_t>(c)]; }
  std::uint64_t operator[](DropReason r) const { return drops[static_cast<std::size_t>(r)]; }
  // Returns the number of invalid packets: too short, damaged, or of a form that does not exist.
  std::uint64_t malformed() const {
    const Totals& t = *this;
    return t[DropReason::kTooShort] + t[DropReason::kBadIcrc] + t[DropReason::kBadVersion] +
           t[DropReason::kUnknownOpcode] + t[DropReason::kBadPad];
  }
  bool operator==(const Totals&) const = default;
};

}  // namespace verbena::fabric
