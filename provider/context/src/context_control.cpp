// SPDX-License-Identifier: BSD-2-Clause
// The daemon's messages to a context.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "verbena/context/context.hpp"
#include "verbena/control/address_plan.hpp"
#include "verbena/control/fault_settings.hpp"
#include "verbena/control/ring_messages.hpp"
#include "verbena/link/clock.hpp"
#include "verbena/report/explain.hpp"

namespace verbena::provider {
namespace {

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

bool Context::handle_control() noexcept {
  const std::unique_lock guard(control_lock_, std::try_to_lock);
  if (!guard.owns_lock()) return false;
  try {
    auto message = control::receive_packet(channel_.fd(), MSG_DONTWAIT);
    if (message) {
      handle_message(std::move(*message));
    } else if (message.error().code != EAGAIN) {
      turn_fatal(message.error().code == ECONNRESET ? "the emulator is gone"
                                                    : message.error().text.c_str());
    }
  } catch (const std::exception& e) {
    provider::explain("a message of the emulator could not be handled: %s", e.what());
  } catch (const VerbRefused&) {
  }
  return true;
}

void Context::handle_message(control::Incoming&& message) {
  using control::MessageType;
  switch (message.type()) {
    case MessageType::kStatusRequest:
      if (const auto request = control::decode<control::StatusRequest>(message.payload)) {
        report_status(*request, message.header.sequence);
      }
      return;
    case MessageType::kPortEvent:
      if (auto event = control::decode<control::PortEvent>(message.payload)) {
        handle_port_event(*event);
      }
      return;
    case MessageType::kSetFault:
      if (auto fault = control::decode<control::SetFault>(message.payload)) {
        handle_faults(fault->faults);
      }
      return;
    case MessageType::kFindQueuePair:
      if (auto question = control::decode<control::FindQueuePair>(message.payload)) {
        handle_find_queue_pair(*question);
      }
      return;
    case MessageType::kAddressOpened:
      if (auto opened = control::decode<control::AddressOpened>(message.payload)) {
        if (!source_at(opened->address)) adopt_address(opened->address, message.fds);
      }
      return;
    case MessageType::kRelayed:
      if (auto relayed = control::decode<control::Relayed>(message.payload)) {
        handle_relayed(*relayed);
      }
      return;
    case MessageType::kExportQuery:
      if (auto query = control::decode<control::ExportQuery>(message.payload)) {
        handle_export_query(*query);
      }
      return;
    case MessageType::kOwnerGone:
      return memory_.foreign().end();
    case MessageType::kPeerNews:
      if (auto news = control::decode<control::PeerNews>(message.payload)) handle_peer_news(*news);
      return;
    case MessageType::kQpQuestion:
      if (auto question = control::decode<control::QpQuestion>(message.payload)) {
        handle_qp_question(*question);
      }
      return;
    case MessageType::kRaiseEvent:
      if (auto request = control::decode<control::RaiseEvent>(message.payload)) {
        handle_raise_event(*request, message.header.sequence);
      }
      return;
    case MessageType::kRingInbound:
      return handle_ring_inbound(std::move(message));
    case MessageType::kRingOutbound:
      return handle_ring_outbound(std::move(message));
    case MessageType::kStandInWanted:
    case MessageType::kStandInAnswer:
    case MessageType::kStandInsReleased:
    case MessageType::kReceiverCall:
    case MessageType::kReceiverEvent:
      return handle_xrc_message(message);
    case MessageType::kPeerGone:
      if (auto gone = control::decode<control::PeerGone>(message.payload)) {
        const auto source = source_at(gone->own);
        if (!source) return;
        peers_->remove({gone->address, gone->slot, *source});
        asked_peers_.forget({gone->address, gone->slot, *source});
      }
      return;
    case MessageType::kSetCapture:
      if (auto capture = control::decode<control::SetCapture>(message.payload)) {
        handle_capture(std::move(capture->order), message.fds[0]);
      }
      return;
    case MessageType::kShutdown:
      return turn_fatal("the emulator was told to go down");
    default:
      return;
  }
}

void Context::handle_relayed(const control::Relayed& relayed) {
  wire::RxDatagram datagram;
  datagram.bytes = relayed.packet;
  datagram.source = relayed.source;
  datagram.destination = control::group_of_mgid(relayed.mgid, relayed.source.is_v4());
  datagram.traffic_class = relayed.traffic_class;
  datagram.hop_limit = relayed.hop_limit;
  datagram.flow_label = relayed.flow_label;
  datagram.has_grh = relayed.has_grh;
  datagram.destination_gid = relayed.mgid;
  std::vector<Qpn> members;
  {
    const std::lock_guard guard(lock_);
    for (const Membership& m : memberships_) {
      if (m.mgid == relayed.mgid) members.push_back(m.member);
    }
  }
  const Guard guard(device_->receive_lock());
  const TimeNs now = link::monotonic_now_ns();
  for (const Qpn member : members) device_->handle_multicast(now, datagram, member);
  device_->finish_receive(now, device::Acknowledge::kUnlessAnswered);
}

// Faults are for ordinary packets, and captures show such.
void Context::choose_packs(bool must_be_ordinary) {
  peers_->set_packs(must_be_ordinary ? link::Packs::kNothing : link::Packs::kJoint);
}

void Context::handle_capture(control::CaptureOrder&& order, const control::UniqueFd& ring) {
  if (!order.is_on) {
    capture_->stop();
    return choose_packs(has_faults_);
  }
  if (!ring) return;  // no descriptor was left for it
  auto mapped = link::CaptureRing::map(ring.get());
  if (!mapped) return provider::explain("%s: not captured", mapped.error().text.c_str());
  choose_packs(true);
  capture_->start(std::move(*mapped), std::move(order.recorded_by_sender));
}

void Context::handle_faults(const std::vector<control::FaultSpec>& faults) {
  has_faults_ = std::ranges::any_of(
      faults, [](const control::FaultSpec& spec) { return spec.qpn != control::FaultSpec::kCm; });
  choose_packs(has_faults_ || capture_->is_running());
  std::vector<link::FaultRule> rules;
  for (const control::FaultSpec& spec : faults) {
    if (spec.qpn == control::FaultSpec::kCm || spec.place >= control::kFaultsMost) continue;
    link::FaultRule& rule = rules.emplace_back();
    rule.flow = Qpn(spec.qpn);
    rule.settings = control::settings_of(spec);
    if (stats_ == nullptr) continue;
    control::FaultPart& part = stats_->faults[spec.place];
    rule.counters = &part.counters;
    rule.starts_counting = part.id.read() != spec.id;
    part.id.set(spec.id);
  }
  link_->set_rules(rules);
}

void Context::handle_find_queue_pair(const control::FindQueuePair& question) {
  control::QueuePairFound answer{question.ticket, false};
  device_->for_each_qp([&](qp::QueuePair& qp) {
    answer.found = answer.found || qp.number().value() == question.qpn;
  });
  tell(answer);
}

void Context::report_status(const control::StatusRequest& request, std::uint32_t sequence) {
  control::StatusReport report;
  const std::size_t most = std::min<std::size_t>(request.most, control::StatusReport::kMostInOne);
  if (request.of == control::StatusOf::kQueuePairs) {
    report.last = !device_->for_each_qp_behind(Qpn(request.after), most, [&](qp::QueuePair& qp) {
      report.qps.push_back(status_of(qp, *peers_));
    });
  } else {
    report.last = !exports_.shared_receives.for_each_behind(
        request.after, most, [&](Srq& srq) { report.srqs.push_back(status_of(srq)); });
  }
  report.counts.pds = counts_.pds;
  report.counts.cqs = counts_.cqs;
  report.counts.qps = counts_.qps;
  report.counts.mrs = counts_.mrs;
  report.counts.srqs = counts_.srqs;
  report.counts.contexts = is_further() ? 0 : 1;
  (void)channel_.send(report, sequence);
}

control::Counters Context::port_counters() {
  if (!is_fatal()) {
    auto asked = ask<control::Counters>(control::QueryCounters{info().name});
    if (asked && asked->drops.size() == kDropReasons) return std::move(*asked);
  }
  const PortCounters& own = device_->counters();
  control::Counters counters;
  for (std::size_t i = 0; i < kDropReasons; ++i) {
    counters.drops.push_back(own.drops.read(static_cast<DropReason>(i)));
  }
  return counters;
}

void Context::turn_fatal(const char* reason) noexcept {
  if (fatal_.exchange(true)) return;
  const ShortText why("%s: %s", info_.name.c_str(), reason);
  if (is_further()) return device_->fail_all(why.c_str());
  provider::explain(
      "%s; every queue pair of this context is in error now "
      "(IBV_EVENT_DEVICE_FATAL)",
      why.c_str());
  device_->fail_all(why.c_str());
  on_async_event(queue::AsyncEvent::kDeviceFatal, nullptr);
}

void Context::join_group(Qp& qp, const Gid& mgid, std::uint16_t mlid) {
  const Qpn number = qp.pair->number();
  {
    const std::lock_guard guard(lock_);
    // Before the daemon sends the first packet.
    memberships_.push_back({mgid, number});
  }
  const auto done = ask<control::Ack>(control::AttachMulticast{mgid, mlid, number.value()});
  if (done) return;
  const std::lock_guard lists(lock_);
  std::erase_if(memberships_,
                [&](const Membership& m) { return m.mgid == mgid && m.member == number; });
  refuse(done.error().code, "ibv_attach_mcast: %s", done.error().text.c_str());
}

void Context::leave_group(Qp& qp, const Gid& mgid, std::uint16_t mlid) {
  const Qpn number = qp.pair->number();
  {
    const std::lock_guard guard(lock_);
    std::erase_if(memberships_,
                  [&](const Membership& m) { return m.mgid == mgid && m.member == number; });
  }
  if (is_fatal()) return;
  const auto done = ask<control::Ack>(control::DetachMulticast{mgid, mlid, number.value()});
  if (!done) refuse(done.error().code, "ibv_detach_mcast: %s", done.error().text.c_str());
}

}  // namespace verbena::provider
