// SPDX-License-Identifier: BSD-2-Clause
// The emulator's reports about peers that did not answer, and when it was asked about them. Only
// the last few are kept; the emulator is asked again about others. Any thread.
#pragma once

#include <array>
#include <cstdint>

#include "verbena/base/address.hpp"
#include "verbena/base/lock.hpp"
#include "verbena/base/peer_report.hpp"
#include "verbena/base/types.hpp"

namespace verbena::provider {

class PeerReports {
 public:
  // Returns whether the emulator is to be asked about this queue pair now.
  bool must_ask(const IpAddress& address, Qpn qp, TimeNs now) noexcept;
  // Takes a report about the process, and either about its queue pair or about what it has not
  // read.
  void told(const IpAddress& address, Qpn qp, const PeerReport& news, TimeNs now) noexcept;
  // Returns what was reported since then, or shortly before.
  PeerReport report_on(const IpAddress& address, Qpn qp, TimeNs since) noexcept;

 private:
  // A process may have many queue pairs, all of which ask.
  static constexpr TimeNs kAskInterval = 5'000'000;
  static constexpr TimeNs kAskElsewhereInterval = 1'000'000'000;
  static constexpr TimeNs kStaleAfter = 2 * kAskInterval;

  struct Entry {
    IpAddress address;
    std::uint32_t slot = 0;
    TimeNs asked_at = 0;
    TimeNs told_at = 0;
    Qpn qp;  // the queue pair that report.queue_pair is about
    PeerReport report;
  };
  Entry& entry_of(const IpAddress& address, Qpn qp) noexcept;

  Lock lock_;
  std::array<Entry, 32> entries_;
};

}  // namespace verbena::provider
