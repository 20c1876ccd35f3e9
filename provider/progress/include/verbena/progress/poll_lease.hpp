// SPDX-License-Identifier: BSD-2-Clause
// A timer that tells when an application has stopped polling. Each poll may put the timer off, and
// one poll in a few milliseconds does. The progress thread, which owns the timer, sleeps as long as
// polls come. Polls read no clock for this but the one that they read anyway.
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
  // Readable once no poll has come for kAfter - kRenewal to kAfter, until begin() is called again.
  int fd() const noexcept { return timer_.get(); }

  // --- the thread that sleeps ---
  void begin(TimeNs now) noexcept { put_off(now); }
  // Makes later polls leave the timer alone. A poll that has just put the timer off may still set
  // the next renewal after this; the next begin() or end() corrects that.
  void end() noexcept { renewal_.store(kNever, std::memory_order_relaxed); }

  // --- the application's threads ---
  // If two threads put the timer off at once, both write the same.
  void note_poll(TimeNs now) noexcept {
    if (now >= renewal_.load(std::memory_order_relaxed)) put_off(now);
  }

 private:
  void put_off(TimeNs now) noexcept;

  control::UniqueFd timer_;
  std::atomic<TimeNs> renewal_{kNever};
};

}  // namespace verbena::provider
