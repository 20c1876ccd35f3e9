// SPDX-License-Identifier: BSD-2-Clause
// Time and loss: when to go back, when to probe, when to give up, how much may be in flight.
#include <algorithm>

#include "verbena/requester/requester.hpp"

namespace verbena::requester {

using queue::Status;

namespace {

// So long nobody asks a process that is stopped, or whether it still is: what it is sent lies
// there.
constexpr TimeNs kPauseOfStopped = 100'000'000;

}  // namespace

void Requester::made_progress(std::uint32_t acknowledged, TimeNs now) {
  timer_.progressed(psns_.una(), now);
  if (const auto flight = repair_.progressed(now, timer_.repetition_takes())) [[unlikely]]
    window_.shrink(flight);
  retries_left_ = reliability_.retry_count;
  window_.grow(acknowledged);
}

void Requester::repair_missing(TimeNs now) {
  if (psns_.is_all_answered() || psns_.ahead() == 0 || repair_.was_repeated(psns_.una())) return;
  if (repair_.needs_all(psns_.una())) return go_back(now);
  timer_.lost();
  timer_.repaired(now);
  repair_.want_repair(now, in_flight());
}

// The peer reports that it misses what is at `una`. A path on which that never arrives uses up the
// retries, though the peer is not silent.
void Requester::handle_gap(TimeNs now) {
  if (psns_.is_all_answered() || !repair_.was_repeated(psns_.una())) return repair_missing(now);
  if (!may_repair_be_answered(now) || !repair_.note_gap()) return;
  if (retries_left_ == 0) {
    explain_gap();
    fail_head(Status::kRetryExceeded);
    return;
  }
  --retries_left_;
  repair_.allow_going_back();
  go_back(now);
}

// All from `una` on is to be sent again.
void Requester::go_back(TimeNs now) {
  if (psns_.is_all_answered() || repair_.went_back_to(psns_.una())) return;
  repair_.go_back_to(psns_.una());
  timer_.lost();
  timer_.begin(now);
  window_.shrink(in_flight());
  move_cursor_to(psns_.una());
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
  psns_.move_cursor(psn);
}

TimeNs Requester::deadline() const {
  if (!sending_) return kNever;
  if (!is_reliable()) {
    const TimeNs until = pacing_.waits_until();
    return until != 0 && cursor_ != queue_.tail() ? until : kNever;
  }
  if (rnr_wait_.is_waiting()) return rnr_wait_.until();
  if (psns_.is_all_answered() || turn_.is_awaited()) return kNever;
  return timer_.deadline();
}

// A thread that was woken late has had no occasion to ask before.
wire::PeerReport Requester::report_on_peer(TimeNs now) {
  const TimeNs since = timer_.silent_since();
  const auto report = endpoint_.path->report(since);
  if (report.standing != wire::PeerReport::Standing::kUnknown) return report;
  endpoint_.path->inquire(now);
  return endpoint_.path->report(since);
}

bool Requester::is_excused(TimeNs now, const wire::PeerReport& peer) {
  const SilentPeer::Verdict verdict = silence_.judge(peer, endpoint_.path->reading(), now);
  if (verdict == SilentPeer::Verdict::kStopped &&
      silence_.must_tell_of_stop(timer_.last_heard(), now)) {
    explain_stop(peer);
  }
  return verdict != SilentPeer::Verdict::kRetryCounts;
}

void Requester::handle_timeout(TimeNs now) {
  if (!sending_) return;
  if (rnr_wait_.is_waiting()) {
    if (!rnr_wait_.is_over(now)) return;
    rnr_wait_.end();
    timer_.begin(now);
    return;
  }
  if (psns_.is_all_answered() || turn_.is_awaited()) return;
  if (timer_.is_retry_due(now)) {
    const auto peer = report_on_peer(now);
    if (is_excused(now, peer)) {
      const bool is_stopped = peer.standing == wire::PeerReport::Standing::kStopped;
      // Its silence before it was known to be stopped says nothing, either.
      if (is_stopped) retries_left_ = reliability_.retry_count;
      timer_.excuse(now + (is_stopped ? kPauseOfStopped : 0));
      return;
    }
    endpoint_.port->ack_timeouts.add();
    const SendEntry& oldest = queue_.at(queue_.head());
    queue::tell_timeout(endpoint_, to_string(oldest.opcode), oldest.id);
    if (retries_left_ == 0 && endpoint_.alternate_armed) {
      endpoint_.migration_wanted = true;
      retries_left_ = reliability_.retry_count;
      repair_.allow_going_back();
      go_back(now);
      return;
    }
    if (retries_left_ == 0) {
      explain_silence(now, peer);
      fail_head(Status::kRetryExceeded);
      return;
    }
    --retries_left_;
    repair_.allow_going_back();
    go_back(now);
    give_up_turn();
    window_.close();
    (void)repair_.close_probe();
    return;
  }
  if (timer_.is_probe_due(now)) {
    timer_.probed(now);
    repair_.want_probe(now, in_flight());
    if (timer_.is_silence_long(now)) endpoint_.path->inquire(now);
  }
}

}  // namespace verbena::requester
