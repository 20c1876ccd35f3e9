// SPDX-License-Identifier: BSD-2-Clause
// How many messages the peer has receives for, as its acknowledgements say (IBTA Vol 1, 9.7.7.2).
// Messages are counted from 1; the limit is the number of the last one that may go. The peer counts
// each request packet of a long READ as a message, so its numbers run ahead of ours.
//
// Part of a requester.
#pragma once

#include <cstdint>

#include "verbena/base/types.hpp"
#include "verbena/wire/aeth.hpp"

namespace verbena::requester {

class Credits {
 public:
  void update(wire::Aeth aeth) {
    is_unlimited_ = aeth.value() == wire::kCreditsUnlimited;
    if (!is_unlimited_) limit_ = aeth.msn - ahead_ + wire::decode_credits(aeth.value());
  }
  // The last answer to our message of this number has come.
  void align(wire::Aeth aeth, std::uint32_t message) { ahead_ = aeth.msn - message; }
  bool allow_another() const {
    return is_unlimited_ || Psn(count_ + 1).is_at_or_before(Psn(limit_));
  }
  // Returns the number of the message that begins now.
  std::uint32_t next_message() { return ++count_; }

 private:
  std::uint32_t count_ = 0;
  std::uint32_t limit_ = 0;
  std::uint32_t ahead_ = 0;  // how far the peer's numbers run ahead
  bool is_unlimited_ = true;
};

}  // namespace verbena::requester
