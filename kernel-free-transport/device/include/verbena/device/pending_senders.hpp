// SPDX-License-Identifier: BSD-2-Clause
// The queue pairs of a device that have something to send, until it is their turn. Which list one
// stands in says who found that out, and how long it may wait:
//
//   list    | put there by                               | sends
//   --------+--------------------------------------------+------------------------------------
//   pushed  | any thread: a post that may wait, a turn   | at the end of this round, or of the
//           | among those that share a path, what is     | next one
//           | left of a batch                            |
//   touched | the receiving thread: a packet             | at the end of this round
//   holding | the receiving thread: a packet, and all    | when its time has come, or when all
//           | there is to send is an acknowledgement     | acknowledgements shall go
//           | that waits for data (qp/held_ack.hpp)      |
//
// A queue pair may stand in several of them; who sends looks whether there is anything left.
//
// Part of a device; under its receive lock, but for what is said to be called from any thread.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "verbena/base/lock.hpp"
#include "verbena/base/types.hpp"
#include "verbena/qp/queue_pair.hpp"

namespace verbena::device {

class PendingSenders {
 public:
  // --- from any thread ---
  void push(qp::QueuePair& qp) noexcept { pushed_.push(qp); }
  // The same, and cheaper, under the queue pair's lock.
  void push_locked(qp::QueuePair& qp) noexcept { pushed_.push_exclusively(qp); }
  bool has_pushed() const noexcept { return !pushed_.is_empty(); }
  bool holds_any() const noexcept { return held_until_.read_relaxed() != kNever; }
  // When the first acknowledgement goes that is held, or sooner; kNever: none is.
  TimeNs held_until() const noexcept { return held_until_.read(); }

  // --- under the receive lock ---
  void touch(qp::QueuePair& qp) noexcept {
    if (std::exchange(qp.is_touched, true)) return;
    qp.next_touched = touched_;
    touched_ = &qp;
  }
  // Under the queue pair's lock, too: its acknowledgement is held.
  void hold(qp::QueuePair& qp) {
    if (std::exchange(qp.is_holding, true)) return;
    holding_.push_back(&qp);
    held_until_.publish(std::min(held_until_.read_relaxed(), qp.held.until()));
  }
  // Each that was touched, and then each that was pushed until then.
  template <typename F>
  void take_all(F&& send) {
    while (qp::QueuePair* qp = touched_) {
      touched_ = qp->next_touched;
      qp->is_touched = false;
      send(*qp);
    }
    each_of(pushed_.is_empty() ? nullptr : pushed_.take_all(), send);
  }
  // Each whose acknowledgement has been held as long as it may be, or all; under the lock of that
  // queue pair. Those that went with data meanwhile are only forgotten.
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
  // Or one has been, which release_held() will find out.
  bool is_holding() const noexcept { return !holding_.empty(); }
  // Before it is destroyed; none is touched then.
  void remove(qp::QueuePair& qp);

 private:
  using PushedList = TakeAllList<qp::QueuePair>;

  // Of a list that was taken; `use` may put it back.
  template <typename F>
  static void each_of(qp::QueuePair* first, F&& use) {
    while (qp::QueuePair* qp = first) {
      first = qp->next_in_list;
      PushedList::unlist(*qp);
      use(*qp);
    }
  }

  PushedList pushed_;
  qp::QueuePair* touched_ = nullptr;  // without an atomic operation: who answers pays for none
  std::vector<qp::QueuePair*> holding_;
  Published<TimeNs> held_until_{kNever};
};

}  // namespace verbena::device
