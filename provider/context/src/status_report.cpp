// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/status_report.hpp"

#include <algorithm>

#include "verbena/control/status_messages.hpp"
#include "verbena/events/completion_channel.hpp"
#include "verbena/objects/cq.hpp"
#include "verbena/objects/pd.hpp"
#include "verbena/objects/qp.hpp"
#include "verbena/objects/srq.hpp"

namespace verbena::provider {

std::uint8_t verbs_type(Transport transport) {
  switch (transport) {
    case Transport::kRc:
      return IBV_QPT_RC;
    case Transport::kUc:
      return IBV_QPT_UC;
    case Transport::kUd:
      return IBV_QPT_UD;
    case Transport::kXrcSend:
      return IBV_QPT_XRC_SEND;
    case Transport::kXrcReceive:
      return IBV_QPT_XRC_RECV;
  }
  return 0;
}

namespace {

control::CqArmed armed_of(queue::ArmedFor armed) {
  switch (armed) {
    case queue::ArmedFor::kNothing:
      return control::CqArmed::kNo;
    case queue::ArmedFor::kSolicited:
      return control::CqArmed::kForSolicited;
    case queue::ArmedFor::kAny:
      return control::CqArmed::kForAny;
  }
  return control::CqArmed::kNo;
}

control::CqStatus status_of(Cq& cq) {
  const queue::CompletionQueue::Snapshot now = cq.queue.snapshot();
  control::CqStatus s;
  s.number = cq.abi.cq.handle;
  s.capacity = now.capacity;
  s.users = cq.users.count();
  s.unpolled = now.unpolled;
  s.armed = armed_of(now.armed);
  s.has_overrun = now.has_overrun;
  if (cq.channel) {
    s.has_channel = true;
    s.channel_fd = static_cast<std::uint32_t>(cq.channel->pipe.read_end());
    s.unread_events = static_cast<std::uint32_t>(cq.channel->pipe.unread(sizeof(CompletionEvent)));
    s.unacknowledged_events = cq.unacknowledged_events();
  }
  return s;
}

control::SrqStatus status_of(Srq& srq) {
  control::SrqStatus s;
  s.number = srq.abi.srq.handle;
  s.type = static_cast<std::uint8_t>(srq.type);
  s.receive_outstanding = srq.shared.queue.count();
  s.domain = srq.domain != nullptr ? srq.domain->domain : 0;
  s.cq = srq.cq != nullptr ? srq.cq->abi.cq.handle : 0;
  return s;
}

control::QpStatus status_of(qp::QueuePair& qp, link::PeerLink& peers) {
  const Guard guard(qp.lock());
  const queue::Endpoint& e = qp.endpoint();
  const requester::Requester& requester = qp.requester();
  control::QpStatus s;
  s.qpn = qp.number().value();
  s.type = verbs_type(qp.transport());
  s.state = static_cast<std::uint8_t>(qp.state());
  if (qp.state() != qp::State::kReset && qp.state() != qp::State::kInit) {
    const link::Peer peer{e.destination.address, e.peer.slot(), e.destination.source};
    const bool by_ring = peers.carrier_to(peer) == link::Carrier::kRing;
    s.link = by_ring ? control::LinkKind::kRing : control::LinkKind::kUdp;
    s.peer_address = e.destination.address;
    s.peer_qpn = e.peer.value();
  }
  s.send_psn = requester.next_psn().value();
  s.receive_psn = qp.responder().expected_psn().value();
  s.send_outstanding = requester.queue().tail() - requester.queue().head();
  s.receive_outstanding = e.receives != nullptr ? e.receives->count() : 0;
  s.sent_packets = e.counters.packets_sent.read();
  s.sent_bytes = e.counters.bytes_sent.read();
  s.received_packets = e.counters.packets_received.read();
  s.received_bytes = e.counters.bytes_received.read();
  s.retransmitted_packets = e.counters.retransmitted.read();
  if (const auto* const object = static_cast<const Qp*>(qp.cookie()); object != nullptr) {
    s.send_cq = object->send_cq != nullptr ? object->send_cq->abi.cq.handle : 0;
    s.receive_cq = object->receive_cq != nullptr ? object->receive_cq->abi.cq.handle : 0;
    s.srq = object->srq != nullptr ? object->srq->abi.srq.handle : 0;
    s.domain = object->domain != nullptr ? object->domain->domain : 0;
  }
  if (qp.state() == qp::State::kError || qp.state() == qp::State::kSqe)
    s.last_error = e.reason.text();
  return s;
}

// Puts the objects of the table behind `after` on the page, at most `most` of them.
template <typename Status, typename Object>
void fill(control::StatusPage<Status>& page, ExportTable<Object>& table, std::uint32_t after,
          std::size_t most) {
  page.last = !table.for_each_behind(
      after, most, [&](Object& object) { page.objects.push_back(status_of(object)); });
}

}  // namespace

control::StatusReport status_report(const control::StatusRequest& request, device::Device& device,
                                    link::PeerLink& peers, Exports* queues) {
  using control::StatusOf;
  control::StatusReport report;
  const std::size_t most = std::min<std::size_t>(request.most, control::StatusReport::kMostInOne);
  const auto wants = [&](StatusOf kind) {
    return request.of == kind || request.of == StatusOf::kAll;
  };
  if (wants(StatusOf::kQueuePairs)) {
    report.qps.last = !device.for_each_qp_behind(Qpn(request.after), most, [&](qp::QueuePair& qp) {
      report.qps.objects.push_back(status_of(qp, peers));
    });
  }
  if (queues == nullptr) return report;
  if (wants(StatusOf::kCompletionQueues)) {
    fill(report.cqs, queues->completion_queues, request.after, most);
  }
  if (wants(StatusOf::kSharedReceives)) {
    fill(report.srqs, queues->shared_receives, request.after, most);
  }
  return report;
}

}  // namespace verbena::provider
