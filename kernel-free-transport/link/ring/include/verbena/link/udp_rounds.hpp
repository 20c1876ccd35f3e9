// SPDX-License-Identifier: BSD-2-Clause
// When a link with rings looks at UDP as well. A look at a quiet socket takes 270 ns, one at an
// empty ring some 3 ns: while UDP stays quiet it is looked at less often, and while rings are busy
// it waits for the next round without a packet, for whoever has found one will answer, and nothing
// shall be in the way of that.
//
// Threads: under the receive lock.
#pragma once

#include <algorithm>
#include <cstdint>

namespace verbena::link {

class UdpRounds {
 public:
  // After each look at the rings, if there are any: whether UDP has its turn in this round. Then
  // looked() follows.
  bool is_due(bool has_found) noexcept {
    ++(has_found ? busy_rounds_ : empty_rounds_);
    return has_found ? busy_rounds_ >= kBusyMost
                     : empty_rounds_ >= interval_ || busy_rounds_ >= kBusy;
  }
  // `has_reason`: UDP had something, or there are no rings. Then the next look is soon.
  void looked(bool has_reason) noexcept {
    busy_rounds_ = empty_rounds_ = 0;
    interval_ = has_reason ? 1 : std::min(interval_ * 2, kIntervalMost);
  }
  // The next empty round looks.
  void look_soon() noexcept { interval_ = 1; }

 private:
  // Rounds with packets before UDP has its turn in the next empty round, or, where there is none,
  // in any; and empty rounds in a row.
  static constexpr std::uint32_t kBusy = 16;
  static constexpr std::uint32_t kBusyMost = 32;
  static constexpr std::uint32_t kIntervalMost = 64;

  // Since the last look.
  std::uint32_t busy_rounds_ = 0;
  std::uint32_t empty_rounds_ = 0;
  std::uint32_t interval_ = 1;
};

}  // namespace verbena::link
