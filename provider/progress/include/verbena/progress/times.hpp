// SPDX-License-Identifier: BSD-2-Clause
// All times and thresholds of driving and sleeping, and how they relate (the assertions below). A
// thread that waits goes through these stages: it spins, yields its processor, sleeps.
//
//   time    | thread that waits         | what it waits for, or does after it
//   --------+---------------------------+----------------------------------------------------------
//   0.4 us  | a poll                    | a round of an application that does nothing but poll
//   2 us    | a blocked reader          | a yield that no other thread took, and the next look
//   5 us    | a post                    | the grain in which posts note the time
//   20 us   | the progress thread       | spins after packets have come, if that has paid
//   20 us   | a post                    | posts one after the other: receives as well from then on
//   30 us   | a blocked reader          | spins before it sleeps, if that has paid
//   50 us   | the progress thread       | the first term while it is parked or stands by
//   50 us   | a post                    | a pause: posts were not one after the other
//   60 us   | a poll                    | has found nothing: yields its processor
//   60 us   | the progress thread       | slept shorter than this: a spin would have succeeded
//   100 us  | the progress thread       | the lease on driving that a poll gives
//   100 us  | the progress thread       | another thread drives: looks again
//   120 us  | a blocked reader          | slept shorter than this: a spin would have succeeded
//   1 ms    | the progress thread       | the longest term
//   4 ms    | a blocked reader          | on a single processor: the first spin in a row
//   200 ms  | the progress thread       | looks whether the program's threads have all ended
//   1 s     | a UC queue pair           | sends little: the ring that was asked for may come
#pragma once

#include <cstdint>

#include "verbena/base/types.hpp"

namespace verbena::provider::times {

inline constexpr TimeNs kUs = 1'000;
inline constexpr TimeNs kMs = 1'000 * kUs;

// --- polls ---
inline constexpr TimeNs kRoundOfWhoOnlyPolls = 400;
inline constexpr std::uint32_t kEmptyRoundsUntilLook = 8;  // until the clock is read
inline constexpr TimeNs kPollYield = 60 * kUs;
// Consecutive polls that find another thread driving, until one of them yields to it.
inline constexpr std::uint32_t kRefusalsUntilYield = 64;

// --- posts ---
inline constexpr TimeNs kPostGrain = 5 * kUs;
inline constexpr TimeNs kPostingLong = 20 * kUs;
inline constexpr TimeNs kPostPause = 50 * kUs;
// Posts that wait for an answer, until one of them reads the clock.
inline constexpr std::uint32_t kDeferredUntilLook = 8;

// --- the progress thread ---
inline constexpr TimeNs kThreadSpin = 20 * kUs;
// Packets that wake a sleeper within this time after the last ones would have come within the span
// of a thread that spins: in a stream most of the time is the waking itself.
inline constexpr TimeNs kThreadSpinOfSleeper = 3 * kThreadSpin;
// An application that shares its processor with others has longer gaps between its polls than one
// that has a processor of its own.
inline constexpr TimeNs kLease = 100 * kUs;
inline constexpr TimeNs kFirstTerm = 50 * kUs;
inline constexpr TimeNs kTerm = 1 * kMs;
// Once the first thread has ended.
inline constexpr TimeNs kLastThreadsLook = 200 * kMs;
inline constexpr TimeNs kYieldTime = 100 * kUs;
// How late a timer may be: in a long term, and otherwise.
inline constexpr TimeNs kWideSlack = 4 * kMs;
inline constexpr TimeNs kNarrowSlack = 50 * kUs;

// --- a blocked reader ---
inline constexpr TimeNs kReaderSpin = 30 * kUs;
// An event that a sleeper gets within this time may come within the span of a thread that spins:
// most of the time was the waking of both sides, up to 90 us together in a virtual machine.
inline constexpr TimeNs kReaderSpinOfSleeper = 4 * kReaderSpin;
inline constexpr int kReaderTurns = 2;
inline constexpr TimeNs kTurnOfNobody = 2 * kUs;
inline constexpr TimeNs kSpanOfFirstTurns = 4 * kMs;

// --- rings ---
inline constexpr TimeNs kRingAwaited = 1'000 * kMs;

// --- how they hang together ---
// A round of polling is shorter than any yield or spin. A spin ends before a poller yields its
// processor, so a thread that spins has found by then what it spins for.
static_assert(kEmptyRoundsUntilLook * kRoundOfWhoOnlyPolls < kPostGrain);
static_assert(kRoundOfWhoOnlyPolls < kTurnOfNobody && kTurnOfNobody < kThreadSpin);
static_assert(kThreadSpin <= kReaderSpin && kReaderSpin < kPollYield);
// A poller that has yielded its processor once still holds the lease.
static_assert(kPollYield < kLease);
// A sleeper's span covers the spin and the waking, but not the lease: what comes later comes to
// another thread.
static_assert(kThreadSpin < kThreadSpinOfSleeper && kThreadSpinOfSleeper < kLease);
static_assert(kReaderSpin < kReaderSpinOfSleeper && kPollYield < kReaderSpinOfSleeper);
// Posts that follow each other are recognised before a pause would end them, and hold the lease by
// receiving.
static_assert(kPostGrain < kPostingLong && kPostingLong < kPostPause && kPostPause < kLease);
// A parked thread first looks within the lease, then after it.
static_assert(kFirstTerm < kLease && kLease < kTerm);
static_assert(kNarrowSlack <= kFirstTerm);

}  // namespace verbena::provider::times
