// SPDX-License-Identifier: BSD-2-Clause
// All times and thresholds of driving and sleeping, and how they hang together (the assertions
// below). A thread that waits goes down this table: it looks, gives its processor away, sleeps.
//
//   time    | who waits                 | what it waits for, or does after it
//   --------+---------------------------+----------------------------------------------------------
//   0.4 us  | a poll                    | a round of an application that does nothing but poll
//   2 us    | a blocked reader          | a turn that nobody took, with the look after it
//   5 us    | a post                    | the grain in which posts note the time
//   20 us   | the progress thread       | looks on after packets have come, if that has paid
//   20 us   | a post                    | posts one after the other: receives as well from then on
//   30 us   | a blocked reader          | looks before it sleeps, if that has paid
//   50 us   | the progress thread       | the first term while it is parked or stands by
//   50 us   | a post                    | a pause: posts were not one after the other
//   60 us   | a poll                    | has found nothing: gives its processor away
//   60 us   | the progress thread       | slept so long in vain: it would have found by looking
//   100 us  | the progress thread       | the lease on driving that a poll gives
//   100 us  | the progress thread       | another thread drives: looks again
//   120 us  | a blocked reader          | slept so long in vain: it would have found by looking
//   1 ms    | the progress thread       | the longest term while it looks by itself
//   2 ms    | a poll                    | puts off the poll lease's timer
//   4 ms    | the progress thread       | the poll lease's timer: the polls have ended
//   4 ms    | a blocked reader          | on its only processor: the first look in a row
//   100 ms  | the progress thread       | looks all the same while polls keep it asleep
#pragma once

#include <cstdint>

#include "verbena/base/types.hpp"

namespace verbena::provider::times {

inline constexpr TimeNs kUs = 1'000;
inline constexpr TimeNs kMs = 1'000 * kUs;

// --- polls ---
inline constexpr TimeNs kRoundOfWhoOnlyPolls = 400;
inline constexpr std::uint32_t kEmptyRoundsUntilLook = 8;  // at the clock
inline constexpr TimeNs kPollYield = 60 * kUs;
// Polls in a row that find another thread driving, before one gives way to it.
inline constexpr std::uint32_t kRefusalsUntilYield = 64;

// --- posts ---
inline constexpr TimeNs kPostGrain = 5 * kUs;
inline constexpr TimeNs kPostingLong = 20 * kUs;
inline constexpr TimeNs kPostPause = 50 * kUs;
inline constexpr std::uint32_t kDeferredUntilLook = 8;  // posts that wait for an answer

// --- the progress thread ---
inline constexpr TimeNs kThreadSpin = 20 * kUs;
// What woke a sleeper so long after the last packets would have come within the span to one that
// looks: in a stream most of that is its waking.
inline constexpr TimeNs kThreadSpinOfSleeper = 3 * kThreadSpin;
// An application that shares its processor with others has longer gaps between its polls than one
// of its own.
inline constexpr TimeNs kLease = 100 * kUs;
inline constexpr TimeNs kFirstTerm = 50 * kUs;
inline constexpr TimeNs kTerm = 1 * kMs;
inline constexpr TimeNs kKeptTerm = 100 * kMs;
inline constexpr TimeNs kYieldTime = 100 * kUs;
inline constexpr TimeNs kPollsEnd = 4 * kMs;
inline constexpr TimeNs kPollRenewal = kPollsEnd / 2;
inline constexpr TimeNs kSlice = 100 * kUs;  // of the processor, as the scheduler is asked for
// By how much a timer may be late: of a long term, of any other.
inline constexpr TimeNs kWideSlack = 4 * kMs;
inline constexpr TimeNs kNarrowSlack = 50 * kUs;

// --- a blocked reader ---
inline constexpr TimeNs kReaderSpin = 30 * kUs;
// What a sleeper got after so long may come within the span to one that looks: most of the time was
// the waking of both sides, up to 90 us together in a virtual machine.
inline constexpr TimeNs kReaderSpinOfSleeper = 4 * kReaderSpin;
inline constexpr int kReaderTurns = 2;
inline constexpr TimeNs kTurnOfNobody = 2 * kUs;
inline constexpr TimeNs kSpanOfFirstTurns = 4 * kMs;

// --- how they hang together ---
// A round of polling is less than any turn or spin, and a spin ends before a poller gives its
// processor away: who spins on it has found by then what it spins for.
static_assert(kEmptyRoundsUntilLook * kRoundOfWhoOnlyPolls < kPostGrain);
static_assert(kRoundOfWhoOnlyPolls < kTurnOfNobody && kTurnOfNobody < kThreadSpin);
static_assert(kThreadSpin <= kReaderSpin && kReaderSpin < kPollYield);
// A poller that has given its processor away once holds the lease still.
static_assert(kPollYield < kLease);
// A sleeper's span covers the spin and the waking, but not the lease: what came later came to
// somebody else.
static_assert(kThreadSpin < kThreadSpinOfSleeper && kThreadSpinOfSleeper < kLease);
static_assert(kReaderSpin < kReaderSpinOfSleeper && kPollYield < kReaderSpinOfSleeper);
// Who posts one after the other is known before a pause would end that, and holds the lease by what
// it receives.
static_assert(kPostGrain < kPostingLong && kPostingLong < kPostPause && kPostPause < kLease);
// A parked thread looks within the lease at first, then beyond it; terms grow until the timer that
// polls put off takes over, and this fires long before the thread would look by itself.
static_assert(kFirstTerm < kLease && kLease < kTerm);
static_assert(kTerm < kPollRenewal && kPollRenewal < kPollsEnd && kPollsEnd < kKeptTerm);
// No timer is later than the timer of the polls.
static_assert(kNarrowSlack <= kFirstTerm && kWideSlack <= kPollsEnd);

}  // namespace verbena::provider::times
