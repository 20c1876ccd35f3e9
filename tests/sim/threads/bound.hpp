// SPDX-License-Identifier: BSD-2-Clause
// How long a message may wait for a thread at most, from the scheduler's constants and the times of
// provider/progress.
//
//   turn      = wake + switch + (threads - 1) * (slice + switch) * (1 + threads / 8)
//               The time from the wake-up of a thread until it runs. Each other thread that may use
//               its processor has a slice before it. Where the scheduler lets a woken thread run at
//               once, each may also push itself in once in a slice, for an eighth of one.
//   attended  = 3 turns + work
//               The message finds its thread asleep or without its processor (one turn). That
//               thread finds the receive lock held by a thread that has no processor (a second
//               turn), and sleeps on the lock (a third).
//   unattended = 3 * (term + slack) + yield + 8 turns + work
//               The application has just stopped polling. The progress thread sleeps for a term,
//               and for one more if a poll came within the first. A blocked reader within the first
//               term lets it stand by for a second one. Another thread held the receive lock when
//               it looked. Each sleep ends with a turn.
#pragma once

#include "machine.hpp"
#include "verbena/progress/times.hpp"

namespace verbena::threads {

// The time that threads need in between, and that the system adds to their steps.
inline constexpr TimeNs kWork = 500'000;

// `threads`: how many threads may use one processor.
inline TimeNs longest_turn(const MachineOptions& machine, std::size_t threads) {
  const TimeNs others = (threads - 1) * (machine.slice + machine.switch_cost);
  return machine.wake_cost + machine.switch_cost + others + others * threads / 8;
}

// A thread of the application polls, or blocks in the read of an event, the whole time.
inline TimeNs longest_attended(TimeNs turn) { return 3 * turn + kWork; }

// No thread of the application waits for the message.
inline TimeNs longest_unattended(TimeNs turn) {
  using namespace provider::times;
  return 3 * (kTerm + kWideSlack) + kYieldTime + 8 * turn + kWork;
}

}  // namespace verbena::threads
