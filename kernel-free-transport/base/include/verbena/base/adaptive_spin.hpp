// SPDX-License-Identifier: BSD-2-Clause
// Whether to wait a moment for what may come soon: learnt from what came, and dearer with each time
// that the waiting was in vain. Owned by whoever waits; no clock, no lock.
#pragma once

#include <algorithm>
#include <cstdint>

namespace verbena {

class AdaptiveSpin {
 public:
  // Whether it is worth a wait now.
  bool is_on() const noexcept { return promise_ >= needed(); }
  // Nobody waited, and it came soon enough to have been waited for, or it did not.
  void would_have_won() noexcept {
    if (!is_on()) ++promise_;
  }
  void would_have_lost() noexcept { promise_ = 0; }
  // It made no difference whether somebody waited.
  void was_idle() noexcept {
    if (promise_ != 0) --promise_;
  }
  // Somebody waited.
  void won() noexcept {
    if (lost_ != 0) --lost_;
  }
  void lost() noexcept { lose(1); }
  // Much more than could be won.
  void lost_dearly() noexcept { lose(kDearly); }

 private:
  static constexpr std::uint32_t kLeast = 2;
  static constexpr int kLostMax = 10;
  static constexpr int kDearly = 4;

  // So often in a row must it have come soon.
  std::uint32_t needed() const noexcept { return kLeast << lost_; }

  void lose(int times) noexcept {
    promise_ = 0;
    lost_ = static_cast<std::uint8_t>(std::min(lost_ + times, kLostMax));
  }

  std::uint16_t promise_ = 0;
  std::uint8_t lost_ = 0;
};

}  // namespace verbena
