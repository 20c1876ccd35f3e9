// SPDX-License-Identifier: BSD-2-Clause
// What the emulator has told of peers that did not answer, and whom it was asked about. Only the
// last few: who is asked about again is told of again. Any thread.
#pragma once

#include <array>
#include <cstdint>

#include "verbena/base/address.hpp"
#include "verbena/base/lock.hpp"
#include "verbena/base/types.hpp"
#include "verbena/wire/peer_report.hpp"

namespace verbena::provider {

class PeerReports {
 public:
  // Whether the emulator is to be asked about this queue pair now.
  bool must_ask(const IpAddress& address, Qpn qp, TimeNs now) noexcept;
  // What is told of the process, and either of its queue pair or of what it has not read.
  void told(const IpAddress& address, Qpn qp, const wire::PeerReport& news, TimeNs now) noexcept;
  // What was told since then, or shortly before.
  wire::PeerReport report_on(const IpAddress& address, Qpn qp, TimeNs since) noexcept;

 private:
  // Of a process there may be many queue pairs, all of which ask.
  static constexpr TimeNs kAskInterval = 5'000'000;
  static constexpr TimeNs kAskElsewhereInterval = 1'000'000'000;
  static constexpr TimeNs kStaleAfter = 2 * kAskInterval;

  struct Entry {
    IpAddress address;
    std::uint32_t slot = 0;
    TimeNs asked_at = 0;
    TimeNs told_at = 0;
    Qpn qp;  // of which report.queue_pair is
    wire::PeerReport report;
  };
  Entry& entry_of(const IpAddress& address, Qpn qp) noexcept;

  Lock lock_;
  std::array<Entry, 32> entries_;
};

}  // namespace verbena::provider
