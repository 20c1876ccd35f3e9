// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/peer_questions.hpp"

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
    case control::PeerStanding::kClosed:
      return Standing::kClosed;
    case control::PeerStanding::kNobody:
      return Standing::kNobody;
    case control::PeerStanding::kNowhere:
      return Standing::kNowhere;
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

wire::PeerReport report_of(const control::PeerNews& news) {
  wire::PeerReport report;
  report.standing = standing_of(news.standing);
  report.queue_pair = queue_pair_of(news.queue_pair);
  report.connected_to = news.connected_to;
  report.has_unread = news.has_unread;
  report.is_own_process = news.is_asker;
  report.pid = news.pid;
  std::copy_n(news.comm.begin(), std::min(news.comm.size(), report.name.size() - 1),
              report.name.begin());
  return report;
}

control::QpAnswer answer_to(const control::QpQuestion& question, device::Device& device) {
  control::QpAnswer answer{question, control::PeerQp::kNone};
  device.for_each_qp([&](qp::QueuePair& qp) {
    if (qp.number().value() != question.qpn) return;
    const Guard guard(qp.lock());
    switch (qp.state()) {
      case qp::State::kReset:
      case qp::State::kInit:
        answer.queue_pair = control::PeerQp::kNotReady;
        break;
      case qp::State::kError:
        answer.queue_pair = control::PeerQp::kError;
        break;
      default:
        answer.queue_pair = control::PeerQp::kReady;
        answer.connected_to = qp.endpoint().peer.value();
        break;
    }
  });
  return answer;
}

}  // namespace verbena::provider
