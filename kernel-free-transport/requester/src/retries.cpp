// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/requester/retries.hpp"

#include <algorithm>

#include "words.hpp"

namespace verbena::requester {

PeerReport Retries::report_on_peer(const AnswerTimer& timer, TimeNs now) {
  const TimeNs since = timer.silent_since();
  PeerReport report = endpoint_.path->report(since);
  if (report.standing != PeerReport::Standing::kUnknown) return report;
  endpoint_.path->inquire(now);
  return endpoint_.path->report(since);
}

std::optional<TimeNs> Retries::excuse(const PeerReport& peer, const AnswerTimer& timer,
                                      TimeNs now) {
  const TimeNs line = endpoint_.path->wait_of_line(endpoint_.number, now);
  if (line != 0) return std::min(line, kPauseOfLine);
  switch (peer_.judge(peer, endpoint_.path->reading(), now)) {
    case SilentPeer::Verdict::kRetryCounts:
      return std::nullopt;
    case SilentPeer::Verdict::kExcused:
      return 0;
    case SilentPeer::Verdict::kStopped:
      if (peer_.must_tell(timer.last_heard(), now)) explain_stop(endpoint_, peer);
      // The silence of the peer before it was known to be stopped says nothing either.
      renew();
      return kPauseOfStopped;
  }
  return std::nullopt;
}

void Retries::tell_of_endless_silence(Psn missing, const AnswerTimer& timer, TimeNs now) {
  const auto peer = endpoint_.path->report(timer.silent_since());
  if (!has_cause(endpoint_, peer) || !peer_.must_tell(timer.last_heard(), now)) return;
  explain_endless_silence(endpoint_, missing, peer);
}

void Retries::tell_of_silence(const SendPsns& psns, const AnswerTimer& timer,
                              const PeerReport& peer, TimeNs now) {
  Silence silence;
  silence.missing = psns.una();
  silence.retries = count_;
  silence.interval = timer.retry_interval();
  // This is 0 if the peer had read what lay there: then a retry counted for that just now.
  silence.taken_nothing = now - peer_.counted_at();
  silence.refused = endpoint_.port->send_failures.read() - refused_before_;
  if (psns.una() == psns.first()) silence.answered = foreign_answer_;
  explain_silence(endpoint_, silence, peer);
}

void Retries::tell_of_gap(Psn missing) { explain_gap(endpoint_, missing, count_); }

}  // namespace verbena::requester
