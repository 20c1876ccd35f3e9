// SPDX-License-Identifier: BSD-2-Clause
// Detects a peer whose PSNs do not match ours: its sq_psn is not this queue pair's rq_psn. A packet
// that gets lost is repeated; a packet that comes again and again, and was never expected, comes
// from such a peer.
//
// Part of a responder.
#pragma once

#include <cstdint>

#include "verbena/base/types.hpp"

namespace verbena::responder {

class PsnMismatch {
 public:
  // Begins anew at RTR.
  void start() {
    is_in_step_ = false;
    count_ = 0;
  }
  // An expected packet has come: both ends have begun with the same PSN, whatever comes later.
  void note_expected() { is_in_step_ = true; }
  // Returns true once, when the mismatch is certain. `repeats`: the peer sends the same packet
  // until it is answered.
  [[gnu::cold]] bool note_foreign(Psn psn, bool repeats) {
    constexpr std::uint8_t kBeyondDoubt = 3;
    if (is_in_step_) return false;
    if (repeats && !(psn == last_)) count_ = 0;
    last_ = psn;
    return count_ < kBeyondDoubt && ++count_ == kBeyondDoubt;
  }

 private:
  Psn last_;  // the last PSN that was not expected
  std::uint8_t count_ = 0;
  bool is_in_step_ = false;
};

}  // namespace verbena::responder
