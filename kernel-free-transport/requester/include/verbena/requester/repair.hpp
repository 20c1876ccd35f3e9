// SPDX-License-Identifier: BSD-2-Clause
// Decides what is sent again, and remembers what came of it. The packet that is missing at `una`
// goes again alone, and once: a peer that kept what came behind it goes on from there. If the
// packet behind it is missing as well, the peer kept nothing, or a queue on the path overflows.
// Then all goes again, once per place, because every packet behind a gap reports that gap. A packet
// also goes alone as a probe: its answer tells what is missing.
//
// Part of a requester; time is an argument.
#pragma once

#include <cstdint>
#include <utility>

#include "verbena/base/types.hpp"

namespace verbena::requester {

class Repair {
 public:
  // How many reports of one gap make a retry count; as many as probes.
  static constexpr std::uint8_t kReportsPerRetry = 4;

  // --- one packet alone ---
  bool is_wanted() const { return is_wanted_; }
  void want() { is_wanted_ = true; }
  void want_probe(TimeNs now, std::uint32_t in_flight) {
    is_wanted_ = true;
    at_ = now;
    flight_ = in_flight;
  }
  void want_repair(TimeNs now, std::uint32_t in_flight) {
    want_probe(now, in_flight);
    is_repair_ = true;
  }
  void give_up() { is_wanted_ = is_repair_ = false; }
  // The packet went. It stands for all that is before `end`.
  void sent(Psn una, Psn end) {
    probe_is_open_ = !is_repair_;
    give_up();
    is_open_ = was_sent_ = true;
    sent_ = una;
    end_ = end;
  }

  // --- what the peer says ---
  // Returns false if an answer comes so soon that it answers what was sent first.
  bool may_be_answered(TimeNs now, TimeNs takes) const { return now >= at_ + takes; }
  // Everything before `una` was answered. Returns how many packets were in flight when one of them
  // was lost; 0: nothing was missing, or it had only been overtaken.
  std::uint32_t progressed(TimeNs now, TimeNs takes) {
    gap_reports_ = 0;
    went_back_ = false;
    const bool was_open = std::exchange(is_open_, false);
    return was_open && may_be_answered(now, takes) ? flight_ : 0;
  }
  // The peer has answered. Returns true if a probe was open, which this answers.
  bool close_probe() { return std::exchange(probe_is_open_, false); }
  // Returns whether the packets behind an answer to a probe may be lost. If the answer goes further
  // than the probe, the peer probably has all of them and is slow, unless packets do get lost and
  // the peer keeps none of those behind a gap.
  bool may_rest_be_lost(Psn upto, bool is_wary) const {
    return upto.is_at_or_before(end_) || (is_wary && keeps_ == Keeps::kNo);
  }
  // The peer had kept what was about to be sent again.
  void note_kept() { keeps_ = Keeps::kYes; }
  // The peer reports again that something is missing that was sent again. Returns true if a retry
  // counts.
  bool note_gap() {
    if (++gap_reports_ < kReportsPerRetry) return false;
    gap_reports_ = 0;
    return true;
  }

  // --- what is to be done ---
  bool was_repeated(Psn una) const { return (was_sent_ && sent_ == una) || went_back_to(una); }
  bool went_back_to(Psn una) const { return went_back_ && back_at_ == una; }
  // Returns whether all packets behind the missing one at `una` have to go again as well.
  bool needs_all(Psn una) {
    in_a_row_ = was_sent_ && end_ == una ? in_a_row_ + 1 : 0;
    const bool are_too_many = in_a_row_ >= kInARow;
    if (are_too_many && keeps_ == Keeps::kMaybe) keeps_ = Keeps::kNo;
    return are_too_many || keeps_ == Keeps::kNo;
  }
  void go_back_to(Psn una) {
    went_back_ = true;
    was_sent_ = false;
    back_at_ = una;
  }
  // Allows going back to the same place once more.
  void allow_going_back() { went_back_ = false; }

  // Answers to what was sent are not awaited any more.
  void forget() { is_wanted_ = is_repair_ = is_open_ = probe_is_open_ = was_sent_ = false; }

 private:
  static constexpr std::uint8_t kInARow = 2;
  enum class Keeps : std::uint8_t { kMaybe, kYes, kNo };

  Psn sent_, end_;                // the PSN of the packet that went alone, and the PSN behind it
  Psn back_at_;                   // where all was sent again
  TimeNs at_ = 0;                 // when the packet that goes alone was wanted
  std::uint32_t flight_ = 0;      // how much was in flight then
  std::uint8_t in_a_row_ = 0;     // repairs, each right behind the one before
  std::uint8_t gap_reports_ = 0;  // reports of one gap since a retry was counted for it
  Keeps keeps_ = Keeps::kMaybe;   // whether the peer keeps what comes early
  bool is_wanted_ = false;
  bool is_repair_ = false;      // the wanted packet is a repair, not a probe
  bool is_open_ = false;        // no progress since it was sent
  bool probe_is_open_ = false;  // a probe was sent, without an answer since
  bool was_sent_ = false;       // a packet went alone since all was last sent again
  bool went_back_ = false;      // all was sent again, without progress since
};

}  // namespace verbena::requester
