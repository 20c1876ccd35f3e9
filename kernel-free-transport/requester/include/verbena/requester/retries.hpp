// SPDX-License-Identifier: BSD-2-Clause
// The retries that are left when answers do not come, or packets do not arrive (IBTA Vol 1,
// 9.7.6.1.3): whether a silence costs one, and what the program is told when none is left. Retries
// after a refusal for want of a receive are counted apart (rnr_wait.hpp).
//
// Part of a requester; time is an argument.
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/base/peer_report.hpp"
#include "verbena/queue/endpoint.hpp"
#include "verbena/requester/answer_timer.hpp"
#include "verbena/requester/send_psns.hpp"
#include "verbena/requester/silent_peer.hpp"

namespace verbena::requester {

class Retries {
 public:
  // How long a stopped process is left alone: no probe goes to it, and the emulator is not asked
  // about it. Packets to it only lie there.
  static constexpr TimeNs kPauseOfStopped = 100'000'000;
  // How long a line is waited for, at most, until it is asked again: it may get another speed.
  static constexpr TimeNs kPauseOfLine = 1'000'000'000;

  explicit Retries(queue::Endpoint& endpoint) : endpoint_(endpoint) {}

  // Sets the retry_count that the program gave; it takes effect at the next renewal.
  void set_count(std::uint8_t count) { count_ = count; }
  // A new connection begins.
  void start() {
    peer_ = {};
    foreign_answer_.reset();
    renew();
  }
  // There was progress: all retries may be used again.
  void renew() { left_ = count_; }
  // Returns false if no retry is left.
  bool use_one() {
    if (left_ == 0) return false;
    if (left_ == count_) refused_before_ = endpoint_.port->send_failures.read();
    --left_;
    return true;
  }

  // The peer has answered a PSN that was never sent: its PSNs do not match ours, which may be why
  // it takes nothing.
  void note_foreign_answer(Psn psn) { foreign_answer_ = psn; }

  // --- an answer is overdue ---
  // Returns what is known about the peer's process. A thread that was woken late has had no
  // occasion to ask before, so it asks now.
  [[gnu::cold]] PeerReport report_on_peer(const AnswerTimer& timer, TimeNs now);
  // Returns for how long from now on no answer is expected, if the peer was kept from answering, or
  // if not all has left yet: no retry counts. Returns nothing if a retry counts.
  [[gnu::cold]] std::optional<TimeNs> excuse(const PeerReport& peer, const AnswerTimer& timer,
                                             TimeNs now);
  // Tells the program about a silence that does not end, since with timeout 0 no retry counts.
  [[gnu::cold]] void tell_of_endless_silence(Psn missing, const AnswerTimer& timer, TimeNs now);

  // --- no retry is left ---
  // Tells the program about the silence, after a retry that was counted just now.
  [[gnu::cold]] void tell_of_silence(const SendPsns& psns, const AnswerTimer& timer,
                                     const PeerReport& peer, TimeNs now);
  // Tells the program that the peer is not silent, but goes on to report that this packet is
  // missing.
  [[gnu::cold]] void tell_of_gap(Psn missing);

 private:
  queue::Endpoint& endpoint_;
  SilentPeer peer_;
  std::optional<Psn> foreign_answer_;  // the PSN of the last one in this connection
  std::uint64_t refused_before_ = 0;   // packets that the system refused before the first retry
  std::uint8_t count_ = 0;
  std::uint8_t left_ = 0;
};

}  // namespace verbena::requester
