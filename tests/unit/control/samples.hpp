// SPDX-License-Identifier: BSD-2-Clause
// One message of every type with a value in every field, for tests and for the fuzzer.
#pragma once

#include <tuple>

#include "verbena/control/address_plan.hpp"
#include "verbena/control/capture_messages.hpp"
#include "verbena/control/event_messages.hpp"
#include "verbena/control/import_messages.hpp"
#include "verbena/control/journal_messages.hpp"
#include "verbena/control/messages.hpp"
#include "verbena/control/peer_messages.hpp"
#include "verbena/control/ring_messages.hpp"
#include "verbena/control/status_messages.hpp"
#include "verbena/control/xrc_messages.hpp"

namespace verbena::control {

using AllMessages = std::tuple<
    Refused, Ack, Hello, Welcome, OpenDevice, DeviceOpened, ExtraSlot, SlotAdded, AttachMulticast,
    DetachMulticast, Relayed, OpenAddress, AddressOpened, StatusRequest, StatusReport, PortEvent,
    SetFault, Shutdown, SetCapture, Hold, Stay, Capture, CaptureSource, CaptureSlot,
    CaptureSourceEnded, StatusQuery, StatusText, Down, SetPort, Announce, RefreshCounters,
    QueryCounters, Counters, QueryResources, Resources, RingRequest, RingInbound, RingAccepted,
    RingOutbound, PeerGone, Import, Imported, ExportQuery, Exported, OwnerGone, RegionChanged,
    RegionFollowed, RegionSettled, OpenDomain, DomainOpened, CloseDomain, ProxyWanted, ProxyAnswer,
    ProxiesReleased, ReceiverCall, ReceiverAnswer, ReceiverDone, ReceiverEvent, PeerQuestion,
    PeerNews, QpQuestion, QpAnswer, ChangeFault, FaultsInForce, FaultChanged, FindQueuePair,
    QueuePairFound, QueuePairGone, RaiseEvent, JournalWritten, JournalQuery, JournalText>;

inline DeviceInfo sample_device() {
  DeviceInfo d;
  d.has_foreign_peers = false;
  d.first_source_port = 61008;
  d.name = "verbena0";
  d.uverbs_number = 192;
  d.umad_number = 32;
  d.netlink_index = 0x40000000;
  d.address = IpAddress::v4(0x7f010001);
  d.subnet = IpAddress::v4(0x7f010000);
  d.prefix_length = 24;
  d.node_guid = node_guid_of(d.address);
  d.port_guid = port_guid_of(d.address, d.persona);
  d.lid = 1;
  d.cap_mask = 0x02014800;
  d.node_description = "host verbena0";
  d.gids = {{Gid::link_local(d.port_guid), GidType::kInfiniBand, 1, "lo"},
            {Gid::from_ip(d.address), GidType::kRoceV2, 2, "eth0"}};
  d.pkeys = {0xffff, 0x8001};
  return d;
}

inline QpStatus sample_qp() {
  QpStatus qp;
  qp.qpn = 0x4001;
  qp.type = 2;
  qp.state = 3;
  qp.link = LinkKind::kRing;
  qp.peer_address = IpAddress::v4(0x7f010002);
  qp.peer_qpn = 0x8003;
  qp.send_cq = 1;
  qp.receive_cq = 2;
  qp.srq = 0x80200001;
  qp.domain = 4;
  qp.sent_bytes = 0x0102030405060708u;
  qp.last_error = "retry limit";
  return qp;
}

inline void fill(Refused& m) { m = {22, "no"}; }
inline void fill(Hello& m) { m = {ClientKind::kPreload, 4711, "ib_send_bw", "0.1.0"}; }
inline void fill(Welcome& m) { m = {1, "0.1.0", {sample_device(), sample_device()}}; }
inline void fill(OpenDevice& m) { m = {"mlx5_0", 4026531840, true}; }
inline void fill(DeviceOpened& m) {
  m = {7, sample_device(), {FaultSpec{1, 2, 3, {4, 5, 6, 7, 8, 9, 10}, 11, true}},
       2, {true, {}},      {}};
  m.rules = {{3, 4, "drop nth=1", 0}};
}
inline void fill(SlotAdded& m) { m.slot = 1022; }
inline void fill(AttachMulticast& m) { m = {sample_device().gids[0].gid, 0xc001, 0x4001}; }
inline void fill(DetachMulticast& m) { m = {sample_device().gids[1].gid, 0xc002, 0x4002}; }
inline void fill(Relayed& m) {
  m = {sample_device().gids[0].gid, IpAddress::v4(0x7f010009), 3, 64, false, {1, 2, 3}};
}
inline void fill(StatusReport& m) {
  m.counts = {1, 2, 3, 4, 5, 0};
  m.destroys = {{"ibv_destroy_qp", "ibv_ack_async_event", 7, 3, 2}};
  m.qps = {false, {sample_qp(), sample_qp()}};
  m.cqs = {true, {{3, 63, 2, 5, CqArmed::kForAny, true, true, 12, 1, 2}}};
  m.srqs = {false, {{0x80200001, 0, 7, 4, 3}}};
}
inline void fill(PortEvent& m) { m = {kPortStateChanged | kLidChanged, sample_device()}; }
inline void fill(SetFault& m) {
  m = {"verbena0", {FaultSpec{}, FaultSpec{.qpn = 5, .values = {.loss_ppm = 9}}}, 12, {}};
  m.rules = {{1, 2, "drop percent=5", 7}, {2, 3, "nak=rnr", 0}};
}
inline void fill(ChangeFault& m) {
  m = {"verbena0", 0x4001,  true, true, false, kFaultLoss | kFaultSeed, {1, 2, 3, 4, 5, 6, 7},
       8,          {"drop"}};
}
inline void fill(FaultsInForce& m) { m.ticket = 12; }
inline void fill(FaultChanged& m) { m = {true, 0x123456789abcdef0, {2, {{4711, "server"}}}}; }
inline void fill(JournalQuery& m) { m = {0x123456789a, true}; }
inline void fill(JournalText& m) { m = {false, 7, "{\"seq\":7}\n"}; }
inline void fill(FindQueuePair& m) { m = {3, 0x4001}; }
inline void fill(QueuePairFound& m) { m = {3, true}; }
inline void fill(QueuePairGone& m) { m = {0x4001}; }
inline void fill(Shutdown& m) { m.reason = "asked"; }
inline void fill(Capture& m) { m = {"a", true}; }
inline CaptureOrder sample_order() { return {true, {IpAddress::v4(0x7f010001)}}; }
inline void fill(SetCapture& m) { m.order = sample_order(); }
inline void fill(CaptureSource& m) {
  m = {7, 4711, "ib_send_bw", "verbena0", IpAddress::v4(0x7f010001), 3};
}
inline void fill(CaptureSlot& m) { m = {7, 1022}; }
inline void fill(CaptureSourceEnded& m) { m.number = 8; }
inline void fill(RingRequest& m) { m = {IpAddress::v4(0x7f010009), 3, IpAddress::v4(0x7f010001)}; }
inline void fill(RingInbound& m) { m = {IpAddress::v4(0x7f010008), 4, IpAddress::v4(1)}; }
inline void fill(RingAccepted& m) { m = {IpAddress::v4(0x7f010007), 5, IpAddress::v4(2)}; }
inline void fill(RingOutbound& m) {
  m = {IpAddress::v4(0x7f010006), 6, "no memory", true, IpAddress::v4(3)};
}
inline void fill(PeerGone& m) { m = {IpAddress::v4(0x7f010005), 7, IpAddress::v4(4)}; }
inline void fill(OpenAddress& m) { m.address = IpAddress::v4(0x0a000001); }
inline void fill(AddressOpened& m) { m.address = IpAddress::v4(0x0a000001); }
inline ExportedObject sample_object() { return {3, 0x7f0000001000, 4096, 0x1000, 7}; }
inline void fill(Import& m) { m = {"verbena-node/uverbs192/0123", ObjectKind::kRegion, 9}; }
inline void fill(Imported& m) { m.object = sample_object(); }
inline void fill(ExportQuery& m) { m = {5, ObjectKind::kRegion, 9}; }
inline void fill(RegionChanged& m) { m = {5, 9, true, sample_object()}; }
inline void fill(RegionFollowed& m) { m.ticket = 5; }
inline void fill(RegionSettled& m) { m.silent = {2, {{4711, "server"}}}; }
inline void fill(Exported& m) { m = {5, 13, "no", sample_object()}; }
inline void fill(OpenDomain& m) { m = {0x803, 0x1234567890, true, false}; }
inline void fill(DomainOpened& m) { m.number = kSharedDomain | 5; }
inline void fill(CloseDomain& m) { m.number = kSharedDomain | 6; }
inline void fill(ProxyWanted& m) {
  m = {0x8001, 0x8002, kSharedDomain | 5, 0xc001, 77, 1024, 14, 4, 12, 0x4005, 9, 3};
}
inline void fill(ProxyAnswer& m) { m = {0x8001, 0x8002, 0xc007}; }
inline void fill(ProxiesReleased& m) { m.receiver = 0x8001; }
inline void fill(ReceiverCall& m) {
  m = {4, ReceiverVerb::kModify, kSharedDomain | 5, 0x8001, 0x13, {1, 2, 3}};
}
inline void fill(ReceiverAnswer& m) { m = {4, 22, "not in this state", {4, 5}}; }
inline void fill(ReceiverDone& m) { m.attributes = {6, 7, 8}; }
inline void fill(ReceiverEvent& m) { m = {0x8001, 2}; }
inline void fill(PeerQuestion& m) { m = {IpAddress::v4(0x7f010002), 0x8003}; }
inline void fill(PeerNews& m) {
  m = {IpAddress::v4(0x7f010002),
       0x8003,
       {PeerReport::Standing::kStopped, PeerReport::QueuePair::kNotReady, 0x4005, true, true, 4711,
        "server"}};
}
inline void fill(QpQuestion& m) {
  m = {IpAddress::v4(0x7f010001), 3, IpAddress::v4(0x7f010002), 0x8003};
}
inline void fill(QpAnswer& m) {
  fill(m.question);
  m.queue_pair = PeerReport::QueuePair::kReady;
  m.connected_to = 0x4005;
}
inline void fill(StatusRequest& m) { m = {0x4001, 128, StatusOf::kSharedReceives}; }
inline void fill(StatusText& m) { m = {StatusPart::kQps, std::string(300, '{')}; }
inline void fill(RaiseEvent& m) { m = {"verbena0", RaisedEvent::kSrqError, 0x80200001, 3}; }
inline void fill(SetPort& m) { m = {"verbena0", false}; }
inline void fill(Announce& m) { m = {"verbena0", kLidChanged | kGidsChanged}; }
inline void fill(RefreshCounters& m) { m.device = "b"; }
inline void fill(StatusQuery& m) { m.resets = true; }
inline void fill(QueryCounters& m) { m.device = "verbena0"; }
inline void fill(Counters& m) { m = {{1, 0x0102030405060708u}, {3}}; }
inline void fill(QueryResources& m) { m = {"c", ResourcesOf::kCmIds}; }
inline void fill(Resources& m) {
  ContextResources context{"verbena0", 3, 12, "app", {1, 2, 3, 4, 5}, {sample_qp()}, {}, {}};
  context.cqs.emplace_back().number = 3;
  context.srqs.emplace_back().number = 0x80200001;
  const CmIdResource id{"verbena0", 0x8001, 12, 0x4001, 2, 5, 0x0106, {2, 0, 0x1b, 0x58}, {}};
  m = {false, {context}, 7, {id}};
}
// Messages without fields.
template <typename Message>
void fill(Message&) {}

template <typename Message>
Message sample() {
  Message message;
  fill(message);
  return message;
}

}  // namespace verbena::control
