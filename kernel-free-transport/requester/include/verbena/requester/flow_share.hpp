// How the queue pairs of one device share what a receiver can hold: those with packets in flight
// count themselves, and each gets its part of the capacity. A hint, not a lock: late by a packet
// is harmless, since loss is recovered.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace verbena::requester {

class FlowShare {
 public:
  void enter() noexcept { active_.fetch_add(1, std::memory_order_relaxed); }
  void leave() noexcept { active_.fetch_sub(1, std::memory_order_relaxed); }
  std::uint32_t of(std::uint32_t capacity) const noexcept {
    const std::uint32_t active = std::max(active_.load(std::memory_order_relaxed), 1u);
    return std::max(capacity / active, 1u);
  }

 private:
  std::atomic<std::uint32_t> active_{0};
};

}  // namespace verbena::requester
