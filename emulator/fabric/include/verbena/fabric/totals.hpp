// Sums of the counters of many contexts, as plain numbers.
#pragma once

#include <array>
#include <cstdint>

#include "verbena/base/drop_reason.hpp"
#include "verbena/control/stats_page.hpp"

namespace verbena::fabric {

struct Totals {
  std::array<std::uint64_t, control::kPortCounters> port{};
  std::array<std::uint64_t, kDropReasons> drops{};

  void add(const control::StatsPage& page) {
    for (std::size_t i = 0; i < port.size(); ++i) port[i] += page.port[i].read();
    for (std::size_t i = 0; i < drops.size(); ++i) drops[i] += page.drops[i].read();
  }
  void add(const DropCounters& counters) {
    for (std::size_t i = 0; i < drops.size(); ++i) {
      drops[i] += counters.read(static_cast<DropReason>(i));
    }
  }
  std::uint64_t operator[](control::PortCounter c) const {
    return port[static_cast<std::size_t>(c)];
  }
  std::uint64_t all_drops() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t n : drops) sum += n;
    return sum;
  }
  bool operator==(const Totals&) const = default;
};

}  // namespace verbena::fabric
