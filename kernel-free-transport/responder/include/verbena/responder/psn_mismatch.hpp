// SPDX-License-Identifier: BSD-2-Clause
// Whether the peer counts otherwise: its sq_psn is not this queue pair's rq_psn. A packet that gets
// lost is repeated; one that comes again and again, and never was expected, is of such a peer.
//
// Part of a responder.
#pragma once

#include <cstdint>

#include "verbena/base/types.hpp"

namespace verbena::responder {

class PsnMismatch {
 public:
  // At RTR.
  void start() {
    is_in_step_ = false;
    count_ = 0;
  }
  // Something expected has come: whatever comes now, the ends have begun alike.
  void note_expected() { is_in_step_ = true; }
  // True, once: now it is certain. `repeats`: the peer sends the same packet until it is answered.
  [[gnu::cold]] bool note_foreign(Psn psn, bool repeats) {
    constexpr std::uint8_t kBeyondDoubt = 3;
    if (is_in_step_) return false;
    if (repeats && !(psn == last_)) count_ = 0;
    last_ = psn;
    return count_ < kBeyondDoubt && ++count_ == kBeyondDoubt;
  }

 private:
  Psn last_;  // that was not expected
  std::uint8_t count_ = 0;
  bool is_in_step_ = false;
};

}  // namespace verbena::responder
