// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/context/status_report.hpp"

#include <algorithm>

#include "verbena/control/status_messages.hpp"

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

control::LinkKind link_kind(link::Carrier carrier) {
  switch (carrier) {
    case link::Carrier::kUdp:
      return control::LinkKind::kUdp;
    case link::Carrier::kRing:
      return control::LinkKind::kRing;
  }
  return control::LinkKind::kNone;
}

control::SrqStatus status_of(Srq& srq) {
  return {srq.abi.srq.handle, static_cast<std::uint8_t>(srq.type), srq.shared.queue.count()};
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
    s.link = link_kind(peers.carrier_to(peer));
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
  if (qp.state() == qp::State::kError || qp.state() == qp::State::kSqe)
    s.last_error = e.reason.text();
  return s;
}

}  // namespace

control::StatusReport status_report(const control::StatusRequest& request, device::Device& device,
                                    link::PeerLink& peers, ExportTable<Srq>* srqs) {
  control::StatusReport report;
  const std::size_t most = std::min<std::size_t>(request.most, control::StatusReport::kMostInOne);
  if (request.of == control::StatusOf::kQueuePairs) {
    report.last = !device.for_each_qp_behind(Qpn(request.after), most, [&](qp::QueuePair& qp) {
      report.qps.push_back(status_of(qp, peers));
    });
  } else {
    report.last = srqs == nullptr || !srqs->for_each_behind(request.after, most, [&](Srq& srq) {
      report.srqs.push_back(status_of(srq));
    });
  }
  return report;
}

}  // namespace verbena::provider
