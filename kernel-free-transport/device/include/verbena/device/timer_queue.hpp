// SPDX-License-Identifier: BSD-2-Clause
// Deadlines of queue pairs: a heap under a lock of its own. A queue pair is entered only when it
// wants to be woken earlier than it already will be, so that messages that are answered in time
// cost the heap nothing; whoever takes an entry out asks the queue pair whether it still matters.
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
  // True: this is now the earliest of all.
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
