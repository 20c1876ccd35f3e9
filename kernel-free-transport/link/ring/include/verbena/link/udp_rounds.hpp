// SPDX-License-Identifier: BSD-2-Clause
// Decides when a link with rings looks at UDP as well. A look at a quiet socket takes 270 ns, one
// at an empty ring some 3 ns: while UDP stays quiet, it is looked at less often. While rings are
// busy, UDP waits for the next round without a packet: a thread that has found a packet will answer
// it, and nothing should delay that answer.
//
// Threads: under the receive lock.
#pragma once

#include <algorithm>
#include <cstdint>

namespace verbena::link {

class UdpRounds {
 public:
  // Called after each look at the rings, if there are any. Returns whether this round has to look
  // at UDP; if so, looked() follows.
  bool is_due(bool has_found) noexcept {
    ++(has_found ? busy_rounds_ : empty_rounds_);
    return has_found ? busy_rounds_ >= kBusyMost
                     : empty_rounds_ >= interval_ || busy_rounds_ >= kBusy;
  }
  // `has_reason`: UDP had something, or there are no rings. Then the next look comes soon.
  void looked(bool has_reason) noexcept {
    busy_rounds_ = empty_rounds_ = 0;
    interval_ = has_reason ? 1 : std::min(interval_ * 2, kIntervalMost);
  }
  // Makes the next empty round look at UDP.
  void look_soon() noexcept { interval_ = 1; }

 private:
  // After kBusy rounds with packets the next empty round looks at UDP; after kBusyMost any round
  // does. At most kIntervalMost empty rounds pass between two looks.
  static constexpr std::uint32_t kBusy = 16;
  static constexpr std::uint32_t kBusyMost = 32;
  static constexpr std::uint32_t kIntervalMost = 64;

  // Rounds since the last look at UDP.
  std::uint32_t busy_rounds_ = 0;
  std::uint32_t empty_rounds_ = 0;
  std::uint32_t interval_ = 1;
};

}  // namespace verbena::link
