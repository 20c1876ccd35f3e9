// SPDX-License-Identifier: BSD-2-Clause
#include "courtesy.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "memory_guard.hpp"
#include "verbena/link/clock.hpp"

namespace verbena::provider {
namespace {

// A scheduler may let the thread go on at once after some of its yields, whoever waits (two of
// three, Linux 6.18): what is taken counts for as many turns that are not.
constexpr std::uint32_t kWeight = 4;
constexpr std::uint32_t kTakenMost = 4 * kWeight;
// Between two moves; doubled by each that comes soon after the one before, because it did not help.
constexpr TimeNs kPause = 1'000'000;
constexpr TimeNs kPauseMax = 1'024'000'000;

// A turn that takes longer was taken by another thread, where the kernel does not count that (or
// the machine has been away, or is slow).
constexpr TimeNs kTaken = 4'000;

// Of this thread, which a turn that is taken is, too.
long involuntary_switches() noexcept {
  rusage used{};
  ::getrusage(RUSAGE_THREAD, &used);
  return used.ru_nivcsw;
}

}  // namespace

Courtesy& Courtesy::of_this_thread() noexcept {
  static thread_local Courtesy courtesy;
  return courtesy;
}

// Threads that begin at the same moment differ in their numbers.
Courtesy::Courtesy() noexcept
    : coin_(link::monotonic_now_ns() ^ (static_cast<std::uint64_t>(::gettid()) << 32)),
      switches_(involuntary_switches()) {
  note_thread();
}

Turn Courtesy::give_way() noexcept {
  const TimeNs before = link::monotonic_now_ns();
  ::sched_yield();
  const TimeNs now = link::monotonic_now_ns();
  const long switches = involuntary_switches();
  const Turn turn{std::exchange(switches_, switches) != switches, now - before};
  if (turn.was_taken || turn.lasted > kTaken) {
    taken_turns_ = std::min(taken_turns_ + kWeight, kTakenMost);
  } else if (taken_turns_ != 0) {
    --taken_turns_;
  }
  if (taken_turns_ < kTakenMost || now < next_move_) return turn;
  taken_turns_ = 0;
  if (coin_.below(2) == 0) return turn;
  pause_ = now < next_move_ + 4 * pause_ ? std::min(2 * pause_, kPauseMax) : kPause;
  next_move_ = now + pause_;
  move_away();
  return turn;
}

// Where the thread may run is in the end what it was before.
void Courtesy::move_away() noexcept {
  cpu_set_t allowed;
  const int here = ::sched_getcpu();
  if (here < 0 || ::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  cpu_set_t others = allowed;
  CPU_CLR(static_cast<unsigned>(here), &others);
  if (CPU_COUNT(&others) == 0 || ::sched_setaffinity(0, sizeof others, &others) != 0) return;
  ::sched_setaffinity(0, sizeof allowed, &allowed);
  ++moves_;
}

}  // namespace verbena::provider
