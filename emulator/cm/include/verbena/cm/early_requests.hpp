// SPDX-License-Identifier: BSD-2-Clause
// Requests for a service that has no listener yet. They wait a moment for one before they are
// refused. Here a client may be faster than its server, between the server's preparations and its
// `rdma_listen`. On a real network it is slower, because each address and route takes a message to
// resolve. Owned by RdmaCm, one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "verbena/cm/event.hpp"

namespace verbena::cm {

class EarlyRequests {
 public:
  // How long a request waits for a listener before it is refused, how long a new listener has to
  // set its options before it gets the waiting requests, and how many may wait at once.
  static constexpr TimeNs kListenPatience = 200'000'000;
  static constexpr TimeNs kListenSettle = 20'000'000;
  static constexpr std::size_t kMaxEarly = 1024;

  // Returns false if too many requests wait.
  bool add(TimeNs now, const CmEvent& request) {
    if (waiting_.size() >= kMaxEarly) return false;
    waiting_.push_back({now + kListenPatience, request});
    return true;
  }
  // An ID has begun to listen.
  void on_listen(TimeNs now) {
    if (!waiting_.empty() && offer_at_ == kNever) offer_at_ = now + kListenSettle;
  }
  TimeNs next_deadline() const {
    return std::min(offer_at_, waiting_.empty() ? kNever : waiting_.front().until);
  }
  // Returns true, once, if the waiting requests are to be offered to the listeners: a new listener
  // has had time to set its options, or the first request cannot wait any longer.
  bool take_offer(TimeNs now) {
    if (offer_at_ > now && (offer_at_ == kNever || !has_expired(now))) return false;
    offer_at_ = kNever;
    return true;
  }
  // Removes the requests for which `take` returns true.
  template <typename Take>
  void offer(Take&& take) {
    for (const Early& early : std::exchange(waiting_, {})) {
      if (!take(early.request)) waiting_.push_back(early);
    }
  }
  // Removes and returns a request that has waited long enough.
  std::optional<CmEvent> take_expired(TimeNs now) {
    if (!has_expired(now)) return std::nullopt;
    const CmEvent request = waiting_.front().request;
    waiting_.pop_front();
    return request;
  }

 private:
  struct Early {
    TimeNs until = 0;
    CmEvent request;
  };

  bool has_expired(TimeNs now) const { return !waiting_.empty() && waiting_.front().until <= now; }

  std::deque<Early> waiting_;
  TimeNs offer_at_ = kNever;  // when the requests are offered to a new listener
};

}  // namespace verbena::cm
