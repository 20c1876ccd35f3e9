// SPDX-License-Identifier: BSD-2-Clause
// Decides whether the silence of a peer counts as a retry. An adapter answers whatever the
// processors of its host do; a process may be stopped, or wait for a processor for half a second.
// If so, nothing was lost, and no retry counts. Two things tell: the emulator's report, and how far
// the peer has read what was given to the path (a ring knows that). A peer that has read nothing
// since the last retry that counted was kept from its processor. But a process may never come back,
// so patience ends.
//
// Part of a requester; time is an argument.
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/base/peer_report.hpp"
#include "verbena/base/types.hpp"
#include "verbena/wire/path.hpp"

namespace verbena::requester {

class SilentPeer {
 public:
  static constexpr TimeNs kReaderPatience = 5'000'000'000;
  // The patience with the emulator, which was asked what has become of the peer.
  static constexpr TimeNs kReportPatience = 1'000'000'000;

  enum class Verdict : std::uint8_t { kRetryCounts, kExcused, kStopped };

  // Judges an answer that is overdue.
  Verdict judge(const PeerReport& report, const std::optional<wire::Path::Reading>& reading,
                TimeNs now) {
    using Standing = PeerReport::Standing;
    if (report.standing == Standing::kStopped) return Verdict::kStopped;
    if (report.standing == Standing::kAsked) {
      if (asked_since_ == 0) asked_since_ = now;
      if (now < asked_since_ + kReportPatience) return Verdict::kExcused;
    }
    const bool is_patient = now < counted_at_ + kReaderPatience;
    if (report.has_unread && counted_at_ != 0 && is_patient) return Verdict::kExcused;
    const bool has_read_nothing = reading && reading->taken < given_ && given_ <= reading->given;
    if (has_read_nothing && is_patient) return Verdict::kExcused;
    asked_since_ = 0;
    if (has_read_nothing) return Verdict::kRetryCounts;
    given_ = reading ? reading->given : 0;
    counted_at_ = now;
    return Verdict::kRetryCounts;
  }
  // When a retry last counted for a peer that had read what lay there, as far as is known.
  TimeNs counted_at() const { return counted_at_; }
  // Returns true if the program has to be told about the process: once after each time that the
  // peer was heard of.
  bool must_tell(TimeNs heard, TimeNs now) {
    if (told_at_ > heard) return false;
    told_at_ = now;
    return true;
  }

 private:
  std::uint64_t given_ = 0;  // what the path had been given when a retry last counted
  TimeNs counted_at_ = 0;
  TimeNs asked_since_ = 0;  // 0: the emulator was not asked, or a retry has counted since
  TimeNs told_at_ = 0;
};

}  // namespace verbena::requester
