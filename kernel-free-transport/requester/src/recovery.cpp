// SPDX-License-Identifier: BSD-2-Clause
// Time and loss: when to go back, when to probe, when to give up, how much may be in flight.
#include <algorithm>

#include "verbena/requester/requester.hpp"

namespace verbena::requester {

using queue::Status;

namespace {

constexpr unsigned kProbeBackoffMax = 6;
constexpr TimeNs kProbesPerRetry = 4;
// So long nobody asks a process that is stopped, or whether it still is: what it is sent lies
// there.
constexpr TimeNs kPauseOfStopped = 100'000'000;
constexpr std::uint8_t kReportsPerRetry = 4;  // as many as probes
constexpr std::uint8_t kRepairsInARow = 2;
constexpr std::uint8_t kWaryFor = 255;  // acknowledgements since the last loss

}  // namespace

// Up to four times what was asked for, as the specification allows (IBTA Vol 1, 9.7.6.1.3), where
// answers take long: some probes for each retry that is counted, or chance alone could use up the
// counter on a bad path.
TimeNs Requester::retry_interval() const {
  const TimeNs least = std::max(TimeNs{4096} << reliability_.timeout, kRetryIntervalMin);
  return std::clamp(kProbesPerRetry * round_trip_.patience(), least, 4 * least);
}

TimeNs Requester::probe_interval() const {
  const TimeNs interval =
      std::max(round_trip_.patience(), wary_ != 0 ? kProbeIntervalWary : kProbeIntervalMin)
      << std::min<unsigned>(probes_, kProbeBackoffMax);
  return reliability_.timeout == 0 ? interval
                                   : std::min(interval, retry_interval() / kProbesPerRetry);
}

void Requester::made_progress(std::uint32_t acknowledged, TimeNs now) {
  round_trip_.answered(una_, now);
  base_ = probe_base_ = now;
  probes_ = 0;
  if (wary_ != 0) --wary_;
  if (is_repair_open_) [[unlikely]]
    close_repair(now);
  retries_left_ = reliability_.retry_count;
  gap_reports_ = 0;
  went_back_ = false;
  window_.grow(acknowledged);
}

// What was missing is there. If that took no time, it had been overtaken, and else lost, maybe by a
// queue that was full.
void Requester::close_repair(TimeNs now) {
  is_repair_open_ = false;
  if (!may_answer_what_was_repeated(now)) return;
  window_.shrink(repaired_flight_);
}

// What is at `una` goes again, alone and once. A peer that kept what came behind it goes on from
// there. If that behind it turns out to be missing, too, the peer kept nothing, or a queue on the
// way overflows: then all goes again, and more slowly.
void Requester::repair(TimeNs now) {
  if (una_ == sent_ || cursor_psn_ == una_ || (went_back_ && went_back_to_ == una_)) return;
  if (was_repaired_ && repaired_ == una_) return;
  const bool is_behind_repaired = was_repaired_ && probe_end_ == una_;
  repairs_in_a_row_ = is_behind_repaired ? repairs_in_a_row_ + 1 : 0;
  const bool are_too_many = repairs_in_a_row_ >= kRepairsInARow;
  if (are_too_many && peer_keeps_ == Keeps::kMaybe) peer_keeps_ = Keeps::kNo;
  if (are_too_many || peer_keeps_ == Keeps::kNo) return go_back(now);
  wary_ = kWaryFor;
  probe_wanted_ = is_repair_ = true;
  probe_base_ = repaired_at_ = now;
  repaired_flight_ = in_flight();
}

// The peer reports that it misses what is at `una`. A path on which that never arrives uses up the
// retries, though the peer is not silent.
void Requester::handle_gap(TimeNs now) {
  const bool was_sent_again =
      (was_repaired_ && repaired_ == una_) || (went_back_ && went_back_to_ == una_);
  if (una_ == sent_ || !was_sent_again || !may_answer_what_was_repeated(now)) return repair(now);
  if (++gap_reports_ < kReportsPerRetry) return repair(now);
  gap_reports_ = 0;
  if (retries_left_ == 0) {
    explain_gap();
    fail_head(Status::kRetryExceeded);
    return;
  }
  --retries_left_;
  went_back_ = false;
  go_back(now);
}

// All from `una` on is to be sent again. Once per place: the same gap is reported by every packet
// behind it.
void Requester::go_back(TimeNs now) {
  if (una_ == sent_ || (went_back_ && went_back_to_ == una_)) return;
  went_back_ = true;
  was_repaired_ = false;
  went_back_to_ = una_;
  wary_ = kWaryFor;
  window_.shrink(in_flight());
  base_ = probe_base_ = now;
  move_cursor_to(una_);
}

void Requester::move_cursor_to(Psn psn) {
  reads_in_flight_ = 0;
  // What failed here is found out again when its turn comes.
  poisoned_.reset();
  std::uint32_t position = queue_.head();
  for (; position != queue_.tail(); ++position) {
    const SendEntry& entry = queue_.at(position);
    if (entry.is_local()) {
      if (!entry.done) break;
      continue;
    }
    if (!entry.numbered || psn.is_at_or_before(entry.last())) break;
  }
  cursor_ = position;
  cursor_psn_ = psn;
}

TimeNs Requester::deadline() const {
  if (!sending_) return kNever;
  if (!is_reliable()) {
    const TimeNs until = pacing_.waits_until();
    return until != 0 && cursor_ != queue_.tail() ? until : kNever;
  }
  if (waiting_rnr_) return rnr_until_;
  if (una_ == sent_ || place_.waits()) return kNever;
  const TimeNs probe = probe_base_ + probe_interval();
  return reliability_.timeout == 0 ? probe : std::min(probe, silent_since() + retry_interval());
}

// A thread that was woken late has had no occasion to ask before.
wire::PeerReport Requester::report_on_peer(TimeNs now, wire::Transmitter& way) {
  const auto report = way.report_on(endpoint_.destination, endpoint_.peer, silent_since());
  if (report.standing != wire::PeerReport::Standing::kUnknown) return report;
  way.inquire(endpoint_.destination, endpoint_.peer, now);
  return way.report_on(endpoint_.destination, endpoint_.peer, silent_since());
}

bool Requester::is_excused(TimeNs now, wire::Transmitter& way, const wire::PeerReport& peer) {
  const auto reading = way.reading_at(endpoint_.destination, endpoint_.peer);
  const SilentPeer::Verdict verdict = silence_.judge(peer, reading, now);
  if (verdict == SilentPeer::Verdict::kStopped && silence_.must_tell_of_stop(heard_, now)) {
    explain_stop(peer);
  }
  return verdict != SilentPeer::Verdict::kRetryCounts;
}

void Requester::handle_timeout(TimeNs now, wire::Transmitter& way) {
  if (!sending_) return;
  if (waiting_rnr_) {
    if (now < rnr_until_) return;
    waiting_rnr_ = false;
    base_ = probe_base_ = now;
    return;
  }
  if (una_ == sent_ || place_.waits()) return;
  if (reliability_.timeout != 0 && now >= silent_since() + retry_interval()) {
    const auto peer = report_on_peer(now, way);
    if (is_excused(now, way, peer)) {
      const bool is_stopped = peer.standing == wire::PeerReport::Standing::kStopped;
      // Its silence before it was known to be stopped says nothing, either.
      if (is_stopped) retries_left_ = reliability_.retry_count;
      base_ = probe_base_ = now + (is_stopped ? kPauseOfStopped : 0);
      round_trip_.cancel();
      return;
    }
    endpoint_.port->ack_timeouts.add();
    if (retries_left_ == 0 && endpoint_.alternate_armed) {
      endpoint_.migration_wanted = true;
      retries_left_ = reliability_.retry_count;
      went_back_ = false;
      go_back(now);
      return;
    }
    if (retries_left_ == 0) {
      explain_silence(now, peer);
      fail_head(Status::kRetryExceeded);
      return;
    }
    --retries_left_;
    went_back_ = false;
    go_back(now);
    give_up_turn();
    window_.close();
    probe_unanswered_ = false;
    return;
  }
  if (now >= probe_base_ + probe_interval()) {
    probe_wanted_ = true;
    probe_base_ = repaired_at_ = now;
    repaired_flight_ = in_flight();
    if (probes_ < 255) ++probes_;
    round_trip_.doubt();
    if (reliability_.timeout != 0 && now >= silent_since() + retry_interval() / 2) {
      way.inquire(endpoint_.destination, endpoint_.peer, now);
    }
  }
}

}  // namespace verbena::requester
