// SPDX-License-Identifier: BSD-2-Clause
// Requests for a service that nobody offers yet. They wait a moment for a listener before they are
// refused: between the end of its preparations and its `rdma_listen` a server is not faster than a
// client here, as it is where each address and route takes a message to resolve. Owned by RdmaCm,
// one thread.
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
  // So long a request waits for somebody to listen before it is refused, and so many may wait.
  // Who has just begun to listen gets them a little later: programs set their options then.
  static constexpr TimeNs kListenPatience = 200'000'000;
  static constexpr TimeNs kListenSettle = 20'000'000;
  static constexpr std::size_t kMaxEarly = 1024;

  // False if too many wait.
  bool add(TimeNs now, const CmEvent& request) {
    if (waiting_.size() >= kMaxEarly) return false;
    waiting_.push_back({now + kListenPatience, request});
    return true;
  }
  // Somebody has begun to listen.
  void on_listen(TimeNs now) {
    if (!waiting_.empty() && offer_at_ == kNever) offer_at_ = now + kListenSettle;
  }
  TimeNs next_deadline() const {
    return std::min(offer_at_, waiting_.empty() ? kNever : waiting_.front().until);
  }
  // Whether those that wait are to be offered to who listens now: when a listener had time to
  // settle, or has not had it, but the first of them cannot wait any longer. Once.
  bool take_offer(TimeNs now) {
    if (offer_at_ > now && (offer_at_ == kNever || !has_expired(now))) return false;
    offer_at_ = kNever;
    return true;
  }
  // Those for which `take` says true wait no more.
  template <typename Take>
  void offer(Take&& take) {
    for (const Early& early : std::exchange(waiting_, {})) {
      if (!take(early.request)) waiting_.push_back(early);
    }
  }
  // One that has waited long enough.
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
  TimeNs offer_at_ = kNever;  // somebody new listens
};

}  // namespace verbena::cm
