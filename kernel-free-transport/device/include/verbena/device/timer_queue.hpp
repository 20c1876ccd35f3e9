// SPDX-License-Identifier: BSD-2-Clause
// Deadlines of queue pairs: a heap with its own lock. A queue pair is added only if its deadline is
// earlier than the one that it is already listed with, so that messages that are answered in time
// cost the heap nothing. Code that takes an entry asks the queue pair whether the deadline still
// holds.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "verbena/base/lock.hpp"
#include "verbena/base/types.hpp"

namespace verbena::device {

class TimerQueue {
 public:
  struct Entry {
    TimeNs deadline;
    Qpn number;
  };
  // Returns true if this is now the earliest deadline.
  bool add(TimeNs deadline, Qpn number);
  std::optional<Entry> take_expired(TimeNs now);
  TimeNs earliest() const noexcept { return earliest_.read_relaxed(); }

 private:
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const { return a.deadline > b.deadline; }
  };
  Lock lock_;
  std::vector<Entry> heap_;
  Published<TimeNs> earliest_{kNever};
};

}  // namespace verbena::device
