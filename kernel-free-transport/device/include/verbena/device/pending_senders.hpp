// SPDX-License-Identifier: BSD-2-Clause
// The queue pairs of a device that have something to send and wait for their turn. The list that a
// queue pair is in tells who put it there and how long it may wait:
//
//   list    | put there by                               | sends
//   --------+--------------------------------------------+------------------------------------
//   pushed  | any thread: a post that may wait, a turn   | at the end of this round or the
//           | among those that share a path, the rest    | next one
//           | of a batch                                 |
//   touched | the receiving thread: a packet             | at the end of this round
//   holding | the receiving thread: a packet that leaves | when its time has come, or when all
//           | nothing to send but an acknowledgement     | acknowledgements must go
//           | that waits for data (qp/held_ack.hpp)      |
//
// A queue pair may be in several lists; before it sends, the sending thread checks whether there is
// anything left.
//
// The device owns the lists and uses them under its receive lock, except for the functions that any
// thread may call.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "verbena/base/check.hpp"
#include "verbena/base/lock.hpp"
#include "verbena/base/types.hpp"
#include "verbena/qp/queue_pair.hpp"

namespace verbena::device {

class PendingSenders {
 public:
  // --- from any thread ---
  void push(qp::QueuePair& qp) noexcept { pushed_.push(qp); }
  // Does the same more cheaply. The caller holds the queue pair's lock.
  void push_locked(qp::QueuePair& qp) noexcept { pushed_.push_exclusively(qp); }
  bool has_pushed() const noexcept { return !pushed_.is_empty(); }
  bool holds_any() const noexcept { return held_until_.read_relaxed() != kNever; }
  // Returns when the first held acknowledgement goes, or an earlier time; kNever if none is held.
  TimeNs held_until() const noexcept { return held_until_.read(); }

  // --- under the receive lock ---
  void touch(qp::QueuePair& qp) noexcept {
    if (std::exchange(qp.is_touched, true)) return;
    qp.next_touched = touched_;
    touched_ = &qp;
  }
  // Lists a queue pair whose acknowledgement is held. The caller also holds the queue pair's lock.
  void hold(qp::QueuePair& qp) {
    if (std::exchange(qp.is_holding, true)) return;
    holding_.push_back(&qp);
    held_until_.publish(std::min(held_until_.read_relaxed(), qp.held.until()));
  }
  // Passes each touched queue pair to `send`, and then each that was pushed until then.
  template <typename F>
  void take_all(F&& send) {
    while (qp::QueuePair* qp = touched_) {
      touched_ = qp->next_touched;
      qp->is_touched = false;
      send(*qp);
    }
    each_of(pushed_.is_empty() ? nullptr : pushed_.take_all(), send);
  }
  // Passes each queue pair whose acknowledgement was held long enough, or all, to `send`, under the
  // queue pair's lock. A queue pair whose acknowledgement already went with data only leaves the
  // list.
  template <typename F>
  void release_held(TimeNs now, bool all, F&& send) {
    TimeNs first = kNever;
    std::erase_if(holding_, [&](qp::QueuePair* qp) {
      const Guard guard(qp->lock());
      if (qp->held.is_held() && !all && now < qp->held.until()) {
        first = std::min(first, qp->held.until());
        return false;
      }
      qp->is_holding = false;
      if (qp->held.is_held()) send(*qp);
      return true;
    });
    held_until_.publish(first);
  }
  // Returns true also if held acknowledgements went with data since the last release_held().
  bool is_holding() const noexcept { return !holding_.empty(); }
  // Call it before the queue pair is destroyed. No queue pair may be touched then.
  void remove(qp::QueuePair& qp) {
    VERBENA_CHECK(touched_ == nullptr);
    // Takes all queue pairs out and puts the others back.
    each_of(pushed_.take_all(), [&](qp::QueuePair& pushed) {
      if (&pushed != &qp) pushed_.push(pushed);
    });
    if (std::exchange(qp.is_holding, false)) std::erase(holding_, &qp);
  }

 private:
  using PushedList = TakeAllList<qp::QueuePair>;

  // Passes the queue pairs of a taken list to `use`, which may push them again.
  template <typename F>
  static void each_of(qp::QueuePair* first, F&& use) {
    while (qp::QueuePair* qp = first) {
      first = qp->next_in_list;
      PushedList::unlist(*qp);
      use(*qp);
    }
  }

  PushedList pushed_;
  qp::QueuePair* touched_ = nullptr;  // no atomic operation, so that answering is cheap
  std::vector<qp::QueuePair*> holding_;
  Published<TimeNs> held_until_{kNever};
};

}  // namespace verbena::device
