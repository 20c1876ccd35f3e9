// SPDX-License-Identifier: BSD-2-Clause
// How many messages the peer has receives for, as its acknowledgements say (IBTA Vol 1, 9.7.7.2).
// Messages are counted from 1; the limit is the number of the last one that may go.
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
    if (!is_unlimited_) limit_ = aeth.msn + wire::decode_credits(aeth.value());
  }
  bool allow_another() const {
    return is_unlimited_ || Psn(count_ + 1).is_at_or_before(Psn(limit_));
  }
  // Returns the number of the message that begins now.
  std::uint32_t next_message() { return ++count_; }

 private:
  std::uint32_t count_ = 0;
  std::uint32_t limit_ = 0;
  bool is_unlimited_ = true;
};

}  // namespace verbena::requester
