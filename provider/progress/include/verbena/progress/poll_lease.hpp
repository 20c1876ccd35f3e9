// SPDX-License-Identifier: BSD-2-Clause
// A timer for the end of an application's polls: each of them may put it off, and one in a few
// milliseconds does. So the progress thread, which owns it, sleeps as long as they come, and no
// clock but the application's own is looked at for that.
#pragma once

#include <atomic>

#include "verbena/base/types.hpp"
#include "verbena/control/unique_fd.hpp"
#include "verbena/progress/times.hpp"

namespace verbena::provider {

class PollLease {
 public:
  static constexpr TimeNs kAfter = times::kPollsEnd;
  static constexpr TimeNs kRenewal = times::kPollRenewal;

  // Returns an errno.
  int open() noexcept;
  // Readable once no poll has come for kAfter; until begin() again.
  int fd() const noexcept { return timer_.get(); }

  // --- the thread that sleeps ---
  void begin(TimeNs now) noexcept { put_off(now); }
  // What polls do from then on costs them nothing. One that has just put the timer off may set the
  // next renewal after this; who begins anew, or ends once more, puts that right.
  void end() noexcept { renewal_.store(kNever, std::memory_order_relaxed); }

  // --- the application's threads ---
  // Of two that put it off at once, both say the same.
  void note_poll(TimeNs now) noexcept {
    if (now >= renewal_.load(std::memory_order_relaxed)) put_off(now);
  }

 private:
  void put_off(TimeNs now) noexcept;

  control::UniqueFd timer_;
  std::atomic<TimeNs> renewal_{kNever};
};

}  // namespace verbena::provider
