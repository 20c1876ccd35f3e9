// SPDX-License-Identifier: BSD-2-Clause
// How far a requester is, in PSNs. Each packet has a number when it is sent for the first time, and
// keeps it when it is sent again.
//
//      una            cursor              sent            next
//   ----|----------------|-----------------|---------------|----->
//       oldest not       next to send      end of what     first not yet
//       acknowledged     (back after loss) ever went out   given to a request
//
// Part of a requester.
#pragma once

#include <cstdint>
#include <utility>

#include "verbena/base/types.hpp"

namespace verbena::requester {

class SendPsns {
 public:
  SendPsns() = default;
  // Begins with this sq_psn, at RTS.
  explicit SendPsns(Psn first) : first_(first), una_(first), sent_(first), next_(first) {
    cursor_ = first;
  }

  Psn first() const { return first_; }
  Psn una() const { return una_; }
  Psn cursor() const { return cursor_; }
  Psn sent() const { return sent_; }
  Psn next() const { return next_; }

  bool is_all_answered() const { return una_ == sent_; }
  std::uint32_t in_flight() const { return static_cast<std::uint32_t>(sent_.distance_from(una_)); }
  // The PSNs between the oldest that is not acknowledged and the next one to be sent.
  std::uint32_t ahead() const { return static_cast<std::uint32_t>(cursor_.distance_from(una_)); }
  // Returns whether the next packet to be sent went out before.
  bool is_repeating() const { return cursor_.is_before(sent_); }
  bool is_consistent() const {
    return una_.is_at_or_before(sent_) && sent_.is_at_or_before(next_) &&
           cursor_.is_at_or_before(next_);
  }

  // Gives PSNs to the next request, which is sent now. Returns the first.
  Psn give(std::uint32_t packets) {
    cursor_ = next_;
    next_ = next_ + packets;
    return cursor_;
  }
  // Packets with `psns` PSNs went out.
  void send(std::uint32_t psns) {
    cursor_ = cursor_ + psns;
    if (cursor_.is_after(sent_)) sent_ = cursor_;
  }
  void move_cursor(Psn psn) { cursor_ = psn; }
  void acknowledge(Psn upto) { una_ = upto; }
  // No answers will come to what went out.
  void await_none() { una_ = sent_ = cursor_; }
  // What was not sent is not going to be sent.
  void skip_all() { una_ = sent_ = cursor_ = next_; }

 private:
  Psn first_;
  Psn una_, sent_, next_;
  Psn cursor_;
};

}  // namespace verbena::requester
