// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/engine/peer_reports.hpp"

namespace verbena::provider {

using Standing = PeerReport::Standing;
using QueuePair = PeerReport::QueuePair;

PeerReports::Entry& PeerReports::entry_of(const IpAddress& address, Qpn qp) noexcept {
  Entry& entry = entries_[(qp.slot() + address.bytes.back()) % entries_.size()];
  if (!(entry.address == address) || entry.slot != qp.slot())
    entry = {address, qp.slot(), 0, 0, {}, {}};
  return entry;
}

bool PeerReports::must_ask(const IpAddress& address, Qpn qp, TimeNs now) noexcept {
  const Guard guard(lock_);
  Entry& entry = entry_of(address, qp);
  const bool is_elsewhere = entry.told_at != 0 && entry.report.standing == Standing::kUnknown;
  if (entry.asked_at != 0 &&
      now < entry.asked_at + (is_elsewhere ? kAskElsewhereInterval : kAskInterval))
    return false;
  entry.asked_at = now;
  return true;
}

void PeerReports::told(const IpAddress& address, Qpn qp, const PeerReport& news,
                       TimeNs now) noexcept {
  const Guard guard(lock_);
  Entry& entry = entry_of(address, qp);
  entry.told_at = now;
  PeerReport& report = entry.report;
  report.standing = news.standing;
  report.is_own_process = news.is_own_process;
  report.pid = news.pid;
  report.name = news.name;
  if (news.queue_pair != QueuePair::kUnknown) {
    entry.qp = qp;
    report.queue_pair = news.queue_pair;
    report.connected_to = news.connected_to;
  } else {
    report.has_unread = news.has_unread;
  }
}

PeerReport PeerReports::report_on(const IpAddress& address, Qpn qp, TimeNs since) noexcept {
  const Guard guard(lock_);
  const Entry& entry = entry_of(address, qp);
  PeerReport report;
  if (entry.told_at != 0 && entry.told_at + kStaleAfter >= since) {
    report = entry.report;
    if (!(entry.qp == qp)) {
      report.queue_pair = QueuePair::kUnknown;
      report.connected_to = 0;
    }
  } else if (entry.asked_at > entry.told_at && entry.asked_at + kStaleAfter >= since) {
    report.standing = Standing::kAsked;
  }
  return report;
}

}  // namespace verbena::provider
