// SPDX-License-Identifier: BSD-2-Clause
// Says when an answer is overdue. After a short silence a probe asks what became of the packets
// that were sent: after 4 ms, or after the time that answers take, and then less and less often. A
// retry counts after the local ACK timeout, which the program gave (IBTA Vol 1, 9.7.6.1.3), or
// after up to four times that if answers take long.
//
// On a path that loses packets, answers and repetitions get lost as well, and waiting milliseconds
// for each costs more than all else: there the first probe goes after 100 us. A path that lost
// nothing lately is not probed so soon: there a late answer means a sleeping peer, and each early
// deadline a wake-up.
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
  static constexpr TimeNs kRetryIntervalMin = 20'000'000;
  // Several probes go for each retry that is counted, or chance alone could use up the retries on a
  // bad path.
  static constexpr TimeNs kProbesPerRetry = 4;
  // With timeout 0 no retry counts. After a silence of this length the emulator is asked about the
  // peer.
  static constexpr TimeNs kLongSilence = 1'000'000'000;
  // After this many acknowledgements, losses count as past.
  static constexpr std::uint8_t kWaryFor = 255;

  // The timeout is 4.096 us * 2^timeout; with 0 no retry ever counts.
  void set_timeout(std::uint8_t timeout) { timeout_ = timeout; }
  // A new connection begins: all but the timeout is forgotten.
  void reset() {
    const std::uint8_t timeout = timeout_;
    *this = {};
    timeout_ = timeout;
  }

  // --- what happens ---
  // The wait for an answer begins or begins anew.
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
  // One packet was sent again (repaired), or a probe was sent (probed). After a probe, the time
  // that is being measured may be that of a loss.
  void repaired(TimeNs now) { probe_base_ = now; }
  void probed(TimeNs now) {
    probe_base_ = now;
    if (probes_ < 255) ++probes_;
    round_trip_.doubt();
  }
  // Answers to what was sent are not awaited any more.
  void forget() {
    round_trip_.cancel();
    probes_ = 0;
  }
  // The peer could not answer before `until`, so the time that is being measured says nothing.
  void excuse(TimeNs until) {
    begin(until);
    round_trip_.cancel();
  }

  // --- what follows ---
  TimeNs deadline() const {
    const TimeNs probe = probe_base_ + probe_interval();
    return timeout_ == 0 ? probe : std::min(probe, silent_since() + retry_interval());
  }
  bool is_retry_due(TimeNs now) const {
    return timeout_ != 0 && now >= silent_since() + retry_interval();
  }
  bool is_probe_due(TimeNs now) const { return now >= probe_base_ + probe_interval(); }
  // Returns whether no retry ever counts.
  bool waits_for_ever() const { return timeout_ == 0; }
  // Returns whether half the time until a retry counts has passed.
  bool is_silence_long(TimeNs now) const {
    const TimeNs is_long = waits_for_ever() ? kLongSilence : retry_interval() / 2;
    return now >= silent_since() + is_long;
  }
  // Returns whether the peer has been silent for so long that others which send to it go first.
  bool lets_others_go_first(TimeNs now) const { return now >= silent_since() + kRetryIntervalMin; }
  bool is_wary() const { return wary_ != 0; }
  // An answer that comes sooner than this after a repetition answers what was sent first.
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
  TimeNs probe_base_ = 0;  // base_, or the time of a later repetition or probe
  TimeNs heard_ = 0;
  std::uint8_t probes_ = 0;  // since the last progress
  std::uint8_t wary_ = 0;
  std::uint8_t timeout_ = 0;
};

}  // namespace verbena::requester
