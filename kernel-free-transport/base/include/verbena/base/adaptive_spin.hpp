// SPDX-License-Identifier: BSD-2-Clause
// Decides whether it pays to spin for something that may come soon. It learns from earlier
// outcomes, and each spin in vain makes it demand more of them. Each user owns one; it has no clock
// and no lock.
#pragma once

#include <algorithm>
#include <cstdint>

namespace verbena {

class AdaptiveSpin {
 public:
  // Says whether spinning pays now.
  bool is_on() const noexcept { return promise_ >= needed(); }
  // Reports that the user did not spin, and that a spin would have succeeded or failed.
  void would_have_won() noexcept {
    if (!is_on()) ++promise_;
  }
  void would_have_lost() noexcept { promise_ = 0; }
  // Reports that a spin would have made no difference.
  void was_idle() noexcept {
    if (promise_ != 0) --promise_;
  }
  // Reports that the user spun, and that the spin succeeded or failed.
  void won() noexcept {
    if (lost_ != 0) --lost_;
  }
  void lost() noexcept { lose(1); }
  // Reports that the spin cost much more than a success could have gained.
  void lost_dearly() noexcept { lose(kDearly); }

 private:
  static constexpr std::uint32_t kLeast = 2;
  static constexpr int kLostMax = 10;
  static constexpr int kDearly = 4;

  // How many times in a row a spin would have had to succeed before spinning starts.
  std::uint32_t needed() const noexcept { return kLeast << lost_; }

  void lose(int times) noexcept {
    promise_ = 0;
    lost_ = static_cast<std::uint8_t>(std::min(lost_ + times, kLostMax));
  }

  std::uint16_t promise_ = 0;
  std::uint8_t lost_ = 0;
};

}  // namespace verbena
