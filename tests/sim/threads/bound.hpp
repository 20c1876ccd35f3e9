// SPDX-License-Identifier: BSD-2-Clause
// How long anything may wait for a thread, from the scheduler's constants and the times of
// provider/progress.
//
//   turn      = wake + switch + (threads - 1) * (slice + switch) * (1 + threads / 8)
//               from the wake-up of a thread until it runs: each other thread that may use its
//               processor has a slice before it; and each may push itself in once in a slice, for
//               an eighth of one, where the scheduler lets who was woken run at once
//   attended  = 3 turns + work
//               the message finds its thread asleep or without its processor (a turn), that thread
//               finds the receive lock taken by one that has no processor (another), and sleeps on
//               the lock (a third)
//   unattended = lease + 3 * (term + slack) + yield + 8 turns + work
//               the application has just stopped to poll: the thread sleeps until the poll lease's
//               timer, or for a term, and one more if a poll had come within it; a blocked reader
//               that was there within the first term lets it stand by for a second one; another
//               thread had the receive lock when it looked; each sleep ends with a turn
#pragma once

#include "machine.hpp"
#include "verbena/progress/times.hpp"

namespace verbena::threads {

// What threads do in between, and what the system adds to their steps.
inline constexpr TimeNs kWork = 500'000;

// `threads`: as many as may use one processor.
inline TimeNs longest_turn(const MachineOptions& machine, std::size_t threads) {
  const TimeNs others = (threads - 1) * (machine.slice + machine.switch_cost);
  return machine.wake_cost + machine.switch_cost + others + others * threads / 8;
}

// A thread of the application polls, or is blocked in the read of an event, the whole time.
inline TimeNs longest_attended(TimeNs turn) { return 3 * turn + kWork; }

// The application does something else.
inline TimeNs longest_unattended(TimeNs turn) {
  using namespace provider::times;
  return kPollsEnd + 3 * (kTerm + kWideSlack) + kYieldTime + 8 * turn + kWork;
}

}  // namespace verbena::threads
