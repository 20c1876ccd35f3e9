// SPDX-License-Identifier: BSD-2-Clause
// The words that the progress thread and the application's threads share without a lock, with their
// memory orders. The progress thread announces that it is about to sleep, and then checks once more
// for reasons not to sleep. A thread that makes such a reason does so first, and then checks
// whether the progress thread sleeps. The fences ensure that at least one of the two notices.
#pragma once

#include <atomic>
#include <cstdint>

#include "verbena/base/types.hpp"

namespace verbena::provider {

// How the progress thread sleeps. It is kicked for new work from kWatching on.
enum class Rest : std::uint8_t {
  kAwake,
  kYielding,    // a very short sleep: another thread drives
  kParked,      // the application polls; a short sleep that ends by itself
  kWatching,    // asleep until a packet, a deadline or a kick
  kRelieved,    // as kWatching, but a blocked reader handles packets
  kStandingBy,  // a short sleep: the blocked reader comes and goes
};

class SleepState {
 public:
  // --- the progress thread ---
  void announce(Rest rest, TimeNs until) noexcept {
    until_.store(until, std::memory_order_relaxed);
    rest_.store(rest, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  void awake() noexcept { rest_.store(Rest::kAwake, std::memory_order_relaxed); }
  std::uint32_t polls() const noexcept { return polls_.load(std::memory_order_relaxed); }
  TimeNs last_poll() const noexcept { return last_poll_.load(std::memory_order_relaxed); }
  // Returns whether a poll was in vain since one last found something.
  bool polls_in_vain() const noexcept {
    return polls() != polls_at_find_.load(std::memory_order_relaxed);
  }
  bool is_sending() const noexcept { return sending_.load(std::memory_order_relaxed); }
  std::int32_t armed() const noexcept { return armed_.load(std::memory_order_relaxed); }
  bool has_blocked_reader() const noexcept { return has_reader_.load(std::memory_order_relaxed); }
  bool take_others() noexcept { return others_.exchange(false, std::memory_order_relaxed); }
  std::uint32_t blocked_reads() const noexcept {
    return blocked_reads_.load(std::memory_order_relaxed);
  }

  // --- the application's threads ---
  // A sign of life, not a count: two threads may overwrite each other's.
  void note_poll() noexcept {
    polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  // A thread that has read the clock says when it polled. The other polls' time is known a few
  // polls later.
  void note_poll(TimeNs now) noexcept {
    last_poll_.store(now, std::memory_order_relaxed);
    note_poll();
  }
  // The last poll has found something.
  void note_found() noexcept { polls_at_find_.store(polls(), std::memory_order_relaxed); }
  // A post sends, which takes longer than many polls. Two threads may overwrite each other's word
  // here as well.
  void note_sending(bool sends) noexcept { sending_.store(sends, std::memory_order_relaxed); }
  // Counts the completion queues that are armed.
  void count_armed(std::int32_t change) noexcept {
    armed_.fetch_add(change, std::memory_order_relaxed);
  }
  // Returns false if another reader blocks already; only one at a time may. Beginnings and ends of
  // such reads are counted, as polls are.
  bool begin_blocked_read() noexcept {
    if (has_reader_.exchange(true, std::memory_order_acquire)) return false;
    blocked_reads_.store(blocked_reads() + 1, std::memory_order_relaxed);
    return true;
  }
  void end_blocked_read() noexcept {
    blocked_reads_.store(blocked_reads() + 1, std::memory_order_relaxed);
    has_reader_.store(false, std::memory_order_release);
  }
  // A thread that is not the blocked reader waits for an event.
  void note_others() noexcept { others_.store(true, std::memory_order_relaxed); }
  // Call this after making a reason to wake up.
  Rest rest() const noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return rest_.load(std::memory_order_relaxed);
  }
  TimeNs until() const noexcept { return until_.load(std::memory_order_relaxed); }

 private:
  std::atomic<Rest> rest_{Rest::kAwake};
  std::atomic<TimeNs> until_{0};
  std::atomic<std::uint32_t> polls_{0};
  std::atomic<std::uint32_t> polls_at_find_{0};
  std::atomic<TimeNs> last_poll_{0};
  std::atomic<bool> sending_{false};
  std::atomic<std::int32_t> armed_{0};
  std::atomic<bool> has_reader_{false};
  std::atomic<bool> others_{false};
  std::atomic<std::uint32_t> blocked_reads_{0};
};

}  // namespace verbena::provider
