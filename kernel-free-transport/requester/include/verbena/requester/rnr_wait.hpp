// SPDX-License-Identifier: BSD-2-Clause
// The wait after a peer's refusal because it had no receive (RNR NAK), and the retries that are
// left after it (IBTA Vol 1, 9.7.5.2.8).
//
// Part of a requester; time is an argument.
#pragma once

#include <cstdint>

#include "verbena/base/types.hpp"

namespace verbena::requester {

class RnrWait {
 public:
  static constexpr std::uint8_t kForEver = 7;
  // How long one packet is refused before the program is told that it waits.
  static constexpr TimeNs kLong = 1'000'000'000;

  bool is_waiting() const { return is_waiting_; }
  // Valid while is_waiting().
  TimeNs until() const { return until_; }
  bool is_over(TimeNs now) const { return now >= until_; }

  // Sets the rnr_retry that the program gave.
  void set_count(std::uint8_t count) { count_ = count; }
  std::uint8_t count() const { return count_; }
  bool is_for_ever() const { return count_ == kForEver; }

  // There was progress: all retries may be used again.
  void renew() { left_ = count_; }
  // The peer refused. Returns false if no retry is left.
  bool may_retry() {
    if (is_for_ever()) return true;
    if (left_ == 0) return false;
    --left_;
    return true;
  }
  // Returns true once for each packet: when it has been refused for so long that the program is
  // told.
  bool must_tell(Psn psn, TimeNs now) {
    if (since_ == 0 || !(psn == refused_)) {
      refused_ = psn;
      since_ = now;
      is_told_ = false;
    }
    if (is_told_ || now - since_ < kLong) return false;
    return is_told_ = true;
  }
  void wait(TimeNs until) {
    is_waiting_ = true;
    until_ = until;
  }
  void end() { is_waiting_ = false; }

 private:
  TimeNs until_ = 0;
  TimeNs since_ = 0;  // when this packet was refused for the first time
  Psn refused_;
  bool is_told_ = false;
  std::uint8_t count_ = 0;
  std::uint8_t left_ = 0;
  bool is_waiting_ = false;
};

}  // namespace verbena::requester
