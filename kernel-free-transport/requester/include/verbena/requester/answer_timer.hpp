// SPDX-License-Identifier: BSD-2-Clause
// When an answer is overdue. After a short silence a probe asks what became of what was sent: after
// 4 ms, or what answers take, and ever more seldom. After the local ACK timeout, which the program
// gave (IBTA Vol 1, 9.7.6.1.3), or up to four times that where answers take long, a retry counts.
//
// Where packets get lost, answers and repetitions get lost as well, and waiting milliseconds for
// each costs more than all else: there the first probe goes after 100 us. A path that lost nothing
// lately is not probed so soon: a late answer means a sleeping peer, and each early deadline a
// wake-up.
//
// Part of a requester; time is an argument.
#pragma once

#include <algorithm>
#include <cstdint>

#include "verbena/base/types.hpp"
#include "verbena/requester/round_trip.hpp"

namespace verbena::requester {

class AnswerTimer {
 public:
  static constexpr TimeNs kProbeIntervalMin = 4'000'000;
  static constexpr TimeNs kProbeIntervalWary = 100'000;
  // An answer may take as long as a descheduled peer sleeps; hardware's microseconds do not apply.
  // Longer than any of a probe's by far, as may_be_due_before() takes for granted.
  static constexpr TimeNs kRetryIntervalMin = 20'000'000;
  // Some probes for each retry that is counted, or chance alone could use up the counter on a bad
  // path.
  static constexpr TimeNs kProbesPerRetry = 4;
  // With timeout 0 no retry counts: after so long a silence the peer is asked for.
  static constexpr TimeNs kLongSilence = 1'000'000'000;
  // Acknowledgements until losses count as past.
  static constexpr std::uint8_t kWaryFor = 255;

  // 4.096 us * 2^timeout; 0: no retry ever counts.
  void set_timeout(std::uint8_t timeout) { timeout_ = timeout; }
  // Of a new connection.
  void reset() {
    const std::uint8_t timeout = timeout_;
    *this = {};
    timeout_ = timeout;
  }

  // --- what happens ---
  // The wait for an answer begins, or begins anew.
  void begin(TimeNs at) { base_ = probe_base_ = at; }
  // A packet goes for the first time and requests its answer.
  void ack_requested(Psn psn, TimeNs now) {
    if (!round_trip_.is_timing()) round_trip_.begin(psn, now);
  }
  // The peer has answered, whatever it said.
  void heard(TimeNs now) { heard_ = now; }
  // All before `una` was answered.
  void progressed(Psn una, TimeNs now) {
    round_trip_.answered(una, now);
    begin(now);
    probes_ = 0;
    if (wary_ != 0) --wary_;
  }
  // Something is missing.
  void lost() { wary_ = kWaryFor; }
  // One packet goes again, or asks; what is timed may be the time of a loss.
  void repaired(TimeNs now) { probe_base_ = now; }
  void probed(TimeNs now) {
    probe_base_ = now;
    if (probes_ < 255) ++probes_;
    round_trip_.doubt();
  }
  // What was sent is not awaited any more.
  void forget() {
    round_trip_.cancel();
    probes_ = 0;
  }
  // The peer could not answer: what is timed says nothing.
  void excuse(TimeNs until) {
    begin(until);
    round_trip_.cancel();
  }

  // --- what follows ---
  TimeNs deadline() const {
    const TimeNs probe = probe_base_ + probe_interval();
    return timeout_ == 0 ? probe : std::min(probe, silent_since() + retry_interval());
  }
  // False: deadline() is no earlier than this. Quicker to ask.
  bool may_be_due_before(TimeNs time) const { return time > base_ + probe_least(); }
  bool is_retry_due(TimeNs now) const {
    return timeout_ != 0 && now >= silent_since() + retry_interval();
  }
  bool is_probe_due(TimeNs now) const { return now >= probe_base_ + probe_interval(); }
  // No retry ever counts.
  bool waits_for_ever() const { return timeout_ == 0; }
  // Half the time of a retry has passed.
  bool is_silence_long(TimeNs now) const {
    const TimeNs is_long = waits_for_ever() ? kLongSilence : retry_interval() / 2;
    return now >= silent_since() + is_long;
  }
  bool is_wary() const { return wary_ != 0; }
  // An answer that came sooner after a repetition answers what was sent first.
  TimeNs repetition_takes() const { return round_trip_.smoothed() / 2; }
  TimeNs last_heard() const { return heard_; }
  TimeNs silent_since() const { return std::max(base_, heard_); }
  TimeNs retry_interval() const {
    const TimeNs least = std::max(TimeNs{4096} << timeout_, kRetryIntervalMin);
    return std::clamp(kProbesPerRetry * round_trip_.patience(), least, 4 * least);
  }

 private:
  static constexpr unsigned kProbeBackoffMax = 6;

  TimeNs probe_least() const { return wary_ != 0 ? kProbeIntervalWary : kProbeIntervalMin; }
  TimeNs probe_interval() const {
    const TimeNs interval = std::max(round_trip_.patience(), probe_least())
                            << std::min<unsigned>(probes_, kProbeBackoffMax);
    return timeout_ == 0 ? interval : std::min(interval, retry_interval() / kProbesPerRetry);
  }

  RoundTrip round_trip_;
  TimeNs base_ = 0;        // when the wait for an answer began
  TimeNs probe_base_ = 0;  // the same, or when a probe was sent since
  TimeNs heard_ = 0;
  std::uint8_t probes_ = 0;  // since progress
  std::uint8_t wary_ = 0;
  std::uint8_t timeout_ = 0;
};

}  // namespace verbena::requester
