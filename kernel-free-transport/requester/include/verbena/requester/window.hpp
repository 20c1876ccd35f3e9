// SPDX-License-Identifier: BSD-2-Clause
// How many packets a requester may have in flight: what the peer can hold, as the path says, and a
// part of that if others send there as well (flow_share.hpp); less after a loss. Since it is known
// what a receiver holds, a loss is mostly chance, and the window grows back quickly.
//
// Part of a requester.
#pragma once

#include <algorithm>
#include <cstdint>

#include "verbena/requester/flow_share.hpp"

namespace verbena::requester {

class Window {
 public:
  // Sets how many packets of full and of small size the peer holds.
  void set_capacity(std::uint32_t full, std::uint32_t small) {
    full_ = std::max(full, 1u);
    small_ = std::max(small, full_);
    packets_ = small_;
  }
  std::uint32_t full() const { return full_; }
  // Returns the capacity for messages of this length.
  std::uint32_t capacity(std::uint32_t length) const {
    return length <= kSmallMost ? small_ : full_;
  }
  std::uint32_t packets(std::uint32_t length, const FlowShare& share) const {
    return std::max(std::min(packets_, share.of(capacity(length))), 1u);
  }
  // The packets of a READ that are asked for at once: the answers to two requests may be on their
  // way while a third is being asked for.
  std::uint32_t chunk() const { return std::max(full_ / 3, 1u); }

  void grow(std::uint32_t acknowledged) {
    packets_ = std::min(packets_ + acknowledged / 2 + 1, small_);
  }
  // A packet was lost when `in_flight` packets were in flight.
  void shrink(std::uint32_t in_flight) {
    packets_ = std::max(std::min(packets_, in_flight) / 2, 1u);
  }
  // No answer has come at all: only one packet may be in flight.
  void close() { packets_ = 1; }

 private:
  static constexpr std::uint32_t kSmallMost = 1024;

  std::uint32_t full_ = 16;
  std::uint32_t small_ = 16;
  std::uint32_t packets_ = 16;
};

}  // namespace verbena::requester
