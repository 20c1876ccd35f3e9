// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/progress/poll_yield.hpp"

#include <sched.h>
#include <sys/resource.h>

#include <utility>

#include "verbena/link/clock.hpp"
#include "verbena/report/thread_guard.hpp"

namespace verbena::provider {
namespace {

// Counts how often this thread lost its processor although it could have gone on. A yield that
// another thread takes counts.
long involuntary_switches() noexcept {
  rusage used{};
  ::getrusage(RUSAGE_THREAD, &used);
  return used.ru_nivcsw;
}

long first_switches() noexcept {
  note_thread();
  return involuntary_switches();
}

}  // namespace

Turn PollYield::give_turn() noexcept {
  static thread_local long switches = first_switches();
  const TimeNs before = link::monotonic_now_ns();
  ::sched_yield();
  const TimeNs now = link::monotonic_now_ns();
  const long switches_before = std::exchange(switches, involuntary_switches());
  return {switches != switches_before, now - before};
}

}  // namespace verbena::provider
