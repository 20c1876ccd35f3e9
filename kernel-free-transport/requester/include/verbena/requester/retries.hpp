// SPDX-License-Identifier: BSD-2-Clause
// The retries that are left when answers do not come, or packets do not arrive (IBTA Vol 1,
// 9.7.6.1.3): whether a silence costs one, and what the program is told when none is left. Those
// after a refusal for want of a receive are counted apart (rnr_wait.hpp).
//
// Part of a requester; time is an argument.
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/queue/endpoint.hpp"
#include "verbena/requester/answer_timer.hpp"
#include "verbena/requester/send_psns.hpp"
#include "verbena/requester/silent_peer.hpp"
#include "verbena/wire/peer_report.hpp"

namespace verbena::requester {

class Retries {
 public:
  // So long nobody asks a process that is stopped, or whether it still is: what it is sent lies
  // there.
  static constexpr TimeNs kPauseOfStopped = 100'000'000;

  explicit Retries(queue::Endpoint& endpoint) : endpoint_(endpoint) {}

  // As the program gave it (retry_count); it counts from the next renewal on.
  void set_count(std::uint8_t count) { count_ = count; }
  // A new connection.
  void start() {
    peer_ = {};
    foreign_answer_.reset();
    renew();
  }
  // There was progress: all may be used again.
  void renew() { left_ = count_; }
  // False: none is left.
  bool use_one() {
    if (left_ == 0) return false;
    --left_;
    return true;
  }

  // The peer has answered what was never sent: it counts otherwise, which may be why it takes
  // nothing.
  void note_foreign_answer(Psn psn) { foreign_answer_ = psn; }

  // --- an answer is overdue ---
  // What is known of the peer's process. A thread that was woken late has had no occasion to ask
  // before, so it asks now.
  [[gnu::cold]] wire::PeerReport report_on_peer(const AnswerTimer& timer, TimeNs now);
  // The peer was kept from answering, so no retry counts: how long from now on nothing is expected
  // of it. Nothing: a retry counts.
  [[gnu::cold]] std::optional<TimeNs> excuse(const wire::PeerReport& peer, const AnswerTimer& timer,
                                             TimeNs now);
  // With timeout 0 no retry counts, so nothing ends the silence.
  [[gnu::cold]] void tell_of_endless_silence(Psn missing, const AnswerTimer& timer, TimeNs now);

  // --- none was left ---
  // After a retry that was counted just now.
  [[gnu::cold]] void tell_of_silence(const SendPsns& psns, const AnswerTimer& timer,
                                     const wire::PeerReport& peer, TimeNs now);
  // The peer is not silent; it goes on to say that this is missing.
  [[gnu::cold]] void tell_of_gap(Psn missing);

 private:
  queue::Endpoint& endpoint_;
  SilentPeer peer_;
  std::optional<Psn> foreign_answer_;  // the last one of this connection
  std::uint8_t count_ = 0;
  std::uint8_t left_ = 0;
};

}  // namespace verbena::requester
