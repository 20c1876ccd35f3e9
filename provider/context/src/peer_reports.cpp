// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/peer_reports.hpp"

#include <algorithm>

namespace verbena::provider {

using Standing = wire::PeerReport::Standing;
using QueuePair = wire::PeerReport::QueuePair;

namespace {

Standing standing_of(control::PeerStanding standing) {
  switch (standing) {
    case control::PeerStanding::kRuns:
      return Standing::kRuns;
    case control::PeerStanding::kStopped:
      return Standing::kStopped;
    case control::PeerStanding::kEnded:
      return Standing::kEnded;
    case control::PeerStanding::kElsewhere:
      break;
  }
  return Standing::kUnknown;
}

QueuePair queue_pair_of(control::PeerQp state) {
  switch (state) {
    case control::PeerQp::kNone:
      return QueuePair::kNone;
    case control::PeerQp::kNotReady:
      return QueuePair::kNotReady;
    case control::PeerQp::kReady:
      return QueuePair::kReady;
    case control::PeerQp::kError:
      return QueuePair::kError;
    case control::PeerQp::kUnknown:
      break;
  }
  return QueuePair::kUnknown;
}

}  // namespace

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

void PeerReports::told(const control::PeerNews& news, TimeNs now) noexcept {
  const Guard guard(lock_);
  const Qpn qp(news.qpn);
  Entry& entry = entry_of(news.address, qp);
  entry.told_at = now;
  wire::PeerReport& report = entry.report;
  report.standing = standing_of(news.standing);
  report.pid = news.pid;
  report.name = {};
  std::copy_n(news.comm.begin(), std::min(news.comm.size(), report.name.size() - 1),
              report.name.begin());
  if (news.queue_pair != control::PeerQp::kUnknown) {
    entry.qp = qp;
    report.queue_pair = queue_pair_of(news.queue_pair);
  } else {
    report.has_unread = news.has_unread;
  }
}

wire::PeerReport PeerReports::report_on(const IpAddress& address, Qpn qp, TimeNs since) noexcept {
  const Guard guard(lock_);
  const Entry& entry = entry_of(address, qp);
  wire::PeerReport report;
  if (entry.told_at != 0 && entry.told_at + kStaleAfter >= since) {
    report = entry.report;
    if (!(entry.qp == qp)) report.queue_pair = QueuePair::kUnknown;
  } else if (entry.asked_at > entry.told_at && entry.asked_at + kStaleAfter >= since) {
    report.standing = Standing::kAsked;
  }
  return report;
}

}  // namespace verbena::provider
