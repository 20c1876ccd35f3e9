// SPDX-License-Identifier: BSD-2-Clause
// How long answers take: the smoothed time and its mean deviation (RFC 6298). One packet at a time
// is timed, when it is sent for the first time and requests its answer. A packet that is sent again
// is not timed, because it is not known which of the two was answered.
#pragma once

#include <algorithm>
#include <cstdint>

#include "verbena/base/types.hpp"

namespace verbena::requester {

class RoundTrip {
 public:
  bool is_timing() const { return is_timing_; }
  void begin(Psn psn, TimeNs now) {
    is_timing_ = true;
    psn_ = psn;
    sent_at_ = now;
  }
  // Something was sent again: the time that is being measured may be that of a loss, so it is
  // dropped. It is kept after kDoubtsMost such times in a row: then the path has become longer, and
  // what was sent again was only late.
  void doubt() {
    if (smoothed_ == 0 || doubts_ == kDoubtsMost) return;
    if (is_timing_) ++doubts_;
    is_timing_ = false;
  }
  void cancel() { is_timing_ = false; }
  // Everything before `una` was answered.
  void answered(Psn una, TimeNs now) {
    if (!is_timing_ || !psn_.is_before(una)) return;
    is_timing_ = false;
    doubts_ = 0;
    // Another thread's time may be a little behind.
    const TimeNs sample = now > sent_at_ ? now - sent_at_ : 0;
    if (smoothed_ == 0) {
      smoothed_ = sample;
      deviation_ = sample / 2;
      return;
    }
    const TimeNs error = sample > smoothed_ ? sample - smoothed_ : smoothed_ - sample;
    deviation_ = deviation_ - deviation_ / 4 + error / 4;
    smoothed_ = smoothed_ - smoothed_ / 8 + sample / 8;
  }
  TimeNs smoothed() const { return smoothed_; }
  // An answer that takes longer than this is hardly on its way. 0: nothing was timed yet.
  TimeNs patience() const { return smoothed_ + std::max(4 * deviation_, smoothed_); }

 private:
  static constexpr std::uint8_t kDoubtsMost = 8;

  TimeNs smoothed_ = 0;
  TimeNs deviation_ = 0;
  TimeNs sent_at_ = 0;
  Psn psn_;
  std::uint8_t doubts_ = 0;
  bool is_timing_ = false;
};

}  // namespace verbena::requester
