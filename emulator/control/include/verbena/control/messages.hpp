// SPDX-License-Identifier: BSD-2-Clause
// The messages of the control protocol, as plain values. Each lists its fields once, in `fields`,
// and that list is both its encoder and its decoder (codec.hpp).
//
//   provider    Hello, OpenDevice -> DeviceOpened + [receive socket, stats page, ...]; then the
//               connection lives as long as the context: its end means the other side is dead.
//   preload     Hello -> Welcome (the device list), RefreshCounters, QueryCounters, QueryResources.
//   verbena     Hello, Hold, Stay, StatusQuery, SetPort, Announce, ChangeFault, Down; RaiseEvent
//               (event_messages.hpp), Capture (capture_messages.hpp).
//   daemon      StatusRequest, PortEvent, SetFault, Relayed, SetCapture, Shutdown to providers,
//               unasked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "verbena/base/address.hpp"
#include "verbena/base/types.hpp"
#include "verbena/control/device_info.hpp"
#include "verbena/control/protocol.hpp"

namespace verbena::control {

// Every message struct has `kType` and a static `fields(archive, self)`.
#define VERBENA_MESSAGE(type_)                             \
  static constexpr MessageType kType = MessageType::type_; \
  VERBENA_FIELDS

enum class ClientKind : std::uint8_t {
  kProvider = 1,
  kPreload = 2,
  kCommand = 3,
  kCm = 4,
  kUmad = 5
};

// The answer to anything that cannot be done. Frozen for all versions.
struct Refused {
  std::uint32_t code = 0;  // errno
  std::string text;        // one line, for people
  VERBENA_MESSAGE(kRefused) { a(m.code, m.text); }
};

struct Ack {
  VERBENA_MESSAGE(kAck) {}
};

// First on every connection.
struct Hello {
  ClientKind kind = ClientKind::kProvider;
  std::uint32_t pid = 0;  // as the client sees it; the daemon believes only SO_PEERCRED
  std::string comm;
  VERBENA_MESSAGE(kHello) { a(m.kind, m.pid, m.comm); }
};

struct Welcome {
  std::uint32_t daemon_pid = 0;
  std::string version;  // of the product
  std::vector<DeviceInfo> devices;
  VERBENA_MESSAGE(kWelcome) { a(m.daemon_pid, m.version, m.devices); }
};

// One context of a device. Once per connection.
struct OpenDevice {
  std::string name;
  std::uint64_t network = 0;  // the namespace that the program is in: network_namespace()
  VERBENA_MESSAGE(kOpenDevice) { a(m.name, m.network); }
};

// Faults of the network, as shares in parts per million of the packets that are sent.
struct FaultValues {
  std::uint32_t loss_ppm = 0;
  std::uint32_t duplicate_ppm = 0;
  std::uint32_t reorder_ppm = 0;
  std::uint32_t corrupt_ppm = 0;
  std::uint64_t delay_ns = 0;
  std::uint64_t jitter_ns = 0;
  std::uint64_t rate_bytes_per_second = 0;  // 0: no limit

  bool is_none() const {
    return loss_ppm == 0 && duplicate_ppm == 0 && reorder_ppm == 0 && corrupt_ppm == 0 &&
           delay_ns == 0 && jitter_ns == 0 && rate_bytes_per_second == 0;
  }
  bool operator==(const FaultValues&) const = default;
  VERBENA_FIELDS {
    a(m.loss_ppm, m.duplicate_ppm, m.reorder_ppm, m.corrupt_ppm, m.delay_ns, m.jitter_ns,
      m.rate_bytes_per_second);
  }
};

// A set of these bits says which of the values a change is about.
enum FaultField : std::uint32_t {
  kFaultLoss = 1,
  kFaultDuplicate = 2,
  kFaultReorder = 4,
  kFaultCorrupt = 8,
  kFaultDelay = 16,
  kFaultJitter = 32,
  kFaultRate = 64,
  kFaultSeed = 128,
};

// What is in force for a queue pair.
struct FaultSpec {
  static constexpr std::uint32_t kEveryQp = 0;  // each that has no fault of its own
  static constexpr std::uint32_t kCm = 1;       // QP1: connection management, the daemon's business
  std::uint32_t qpn = kEveryQp;
  // Where in the stats page a context counts what it does, and for which fault it does so there.
  std::uint32_t place = 0;
  std::uint64_t id = 0;
  FaultValues values;
  std::uint64_t seed = 0;
  bool operator==(const FaultSpec&) const = default;
  VERBENA_FIELDS { a(m.qpn, m.place, m.id, m.values, m.seed); }
};

// A rule of a scripted fault.
struct RuleSpec {
  std::uint32_t place =
      0;  // as of a fault: where a context counts what it does, and for which rule
  std::uint64_t id = 0;
  std::string text;        // fault/rule.hpp
  std::uint64_t seed = 0;  // 0 where it has no chances
  bool operator==(const RuleSpec&) const = default;
  VERBENA_FIELDS { a(m.place, m.id, m.text, m.seed); }
};

// What a context is to record of what it sends and receives, into a ring of its own that comes as a
// descriptor (link/capture_ring.hpp).
struct CaptureOrder {
  bool is_on = false;
  // What comes from there is recorded by its sender.
  std::vector<IpAddress> recorded_by_sender;
  bool operator==(const CaptureOrder&) const = default;
  VERBENA_FIELDS { a(m.is_on, m.recorded_by_sender); }
};

// Descriptors beside it: [0] the receive socket of this slot, bound to address:4791 (never
// connect() it, never bind it anew), [1] the memfd of the stats page (stats_page.hpp), then
// `senders` sockets to send from, which a program gets that is in another network namespace than
// the emulator: its own would lead nowhere. The last one is the ring of the capture that is on.
struct DeviceOpened {
  std::uint32_t slot = 0;  // upper bits of every QPN of this context
  DeviceInfo device;
  std::vector<FaultSpec> faults;  // in force now
  std::uint8_t senders = 0;
  CaptureOrder capture;
  std::vector<RuleSpec> rules;  // in force now
  VERBENA_MESSAGE(kDeviceOpened) { a(m.slot, m.device, m.faults, m.senders, m.capture, m.rules); }
};

// One more slot for the same socket, when the 16384 queue pairs of a slot are used up.
struct ExtraSlot {
  VERBENA_MESSAGE(kExtraSlot) {}
};

struct SlotAdded {
  std::uint32_t slot = 0;
  VERBENA_MESSAGE(kSlotAdded) { a(m.slot); }
};

// Answered by Ack. A queue pair of this context joins or leaves a group.
struct AttachMulticast {
  Gid mgid;
  std::uint16_t mlid = 0;
  std::uint32_t qpn = 0;
  VERBENA_MESSAGE(kAttachMulticast) { a(m.mgid, m.mlid, m.qpn); }
};

struct DetachMulticast {
  Gid mgid;
  std::uint16_t mlid = 0;
  std::uint32_t qpn = 0;
  VERBENA_MESSAGE(kDetachMulticast) { a(m.mgid, m.mlid, m.qpn); }
};

// A datagram that reached the daemon's own socket and is for a group that this context joined.
// One per context and datagram: the context copies it to each of its queue pairs in the group.
// Lost when the context does not read (a datagram may be).
struct Relayed {
  Gid mgid;
  IpAddress source;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  bool has_grh = true;
  std::vector<std::uint8_t> packet;  // BTH .. pad; ICRC verified and cut off
  std::uint32_t flow_label = 0;
  VERBENA_MESSAGE(kRelayed) {
    a(m.mgid, m.source, m.traffic_class, m.hop_limit, m.has_grh, m.packet, m.flow_label);
  }
};

enum class StatusOf : std::uint8_t { kQueuePairs = 0, kSharedReceives = 1 };

// How many objects this context has, and what its queue pairs or shared receive queues do: `most`
// of them, those that stand behind number `after` in the order that the context keeps (0: from the
// first one on). The daemon asks again and again, so that no side has more than a page of it at a
// time.
struct StatusRequest {
  std::uint32_t after = 0;
  std::uint32_t most = 0;
  StatusOf of = StatusOf::kQueuePairs;
  VERBENA_MESSAGE(kStatusRequest) { a(m.after, m.most, m.of); }
};

enum class LinkKind : std::uint8_t { kNone = 0, kUdp = 1, kRing = 2 };

struct QpStatus {
  std::uint32_t qpn = 0;
  std::uint8_t type = 0;   // as ibv_qp_type
  std::uint8_t state = 0;  // as ibv_qp_state
  LinkKind link = LinkKind::kNone;
  IpAddress peer_address;
  std::uint32_t peer_qpn = 0;
  std::uint32_t send_psn = 0;
  std::uint32_t receive_psn = 0;
  std::uint32_t send_outstanding = 0;  // work requests
  std::uint32_t receive_outstanding = 0;
  std::uint64_t sent_packets = 0;
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_packets = 0;
  std::uint64_t received_bytes = 0;
  std::uint64_t retransmitted_packets = 0;
  std::string last_error;  // empty, or why it stands in an error state
  bool operator==(const QpStatus&) const = default;
  VERBENA_FIELDS {
    a(m.qpn, m.type, m.state, m.link, m.peer_address, m.peer_qpn, m.send_psn, m.receive_psn,
      m.send_outstanding, m.receive_outstanding, m.sent_packets, m.sent_bytes, m.received_packets,
      m.received_bytes, m.retransmitted_packets, m.last_error);
  }
};

struct SrqStatus {
  std::uint32_t number = 0;
  std::uint8_t type = 0;  // as ibv_srq_type
  std::uint32_t receive_outstanding = 0;
  bool operator==(const SrqStatus&) const = default;
  VERBENA_FIELDS { a(m.number, m.type, m.receive_outstanding); }
};

struct ResourceCounts {
  std::uint32_t pds = 0;
  std::uint32_t cqs = 0;
  std::uint32_t qps = 0;
  std::uint32_t mrs = 0;
  std::uint32_t srqs = 0;
  std::uint32_t contexts = 1;  // 0: a further engine of one
  bool operator==(const ResourceCounts&) const = default;
  VERBENA_FIELDS { a(m.pds, m.cqs, m.qps, m.mrs, m.srqs, m.contexts); }
};

// Answers StatusRequest with its sequence. `last`: none stands behind these.
struct StatusReport {
  static constexpr std::size_t kMostInOne = 128;  // of either
  bool last = true;
  ResourceCounts counts;  // of the whole context
  std::vector<QpStatus> qps;
  std::vector<SrqStatus> srqs;
  VERBENA_MESSAGE(kStatusReport) { a(m.last, m.counts, m.qps, m.srqs); }
};

// What a PortEvent says besides the new attributes; a set of these bits.
enum PortChange : std::uint32_t {
  kPortStateChanged = 1,
  kLidChanged = 2,
  kGidsChanged = 4,
  kPkeysChanged = 8,
  kSmChanged = 16,
};

struct PortEvent {
  std::uint32_t changes = 0;
  DeviceInfo device;
  VERBENA_MESSAGE(kPortEvent) { a(m.changes, m.device); }
};

// To a provider: all faults of its device, and all rules, in place of those before.
struct SetFault {
  std::string device;
  std::vector<FaultSpec> faults;
  std::uint32_t ticket = 0;
  std::vector<RuleSpec> rules;
  VERBENA_MESSAGE(kSetFault) { a(m.device, m.faults, m.ticket, m.rules); }
};

// From a provider, when it has done so: what it sends from now on meets them. A provider that was
// told again before it looked answers for the last ticket only.
struct FaultsInForce {
  std::uint32_t ticket = 0;
  VERBENA_MESSAGE(kFaultsInForce) { a(m.ticket); }
};

// From `verbena fault`: changes the values that are named and leaves the others, and adds rules
// behind those that there are. Answered by FaultChanged. An empty device means all.
struct ChangeFault {
  std::string device;
  std::uint32_t qpn = 0;    // 0: those of every queue pair
  bool data = true;         // what programs send
  bool cm = false;          // what connection management sends
  bool clear = false;       // takes everything away instead
  std::uint32_t named = 0;  // FaultField
  FaultValues values;
  std::uint64_t seed = 0;
  std::vector<std::string> rules;
  VERBENA_MESSAGE(kChangeFault) {
    a(m.device, m.qpn, m.data, m.cm, m.clear, m.named, m.values, m.seed, m.rules);
  }
};

// A process that has not done yet what it was told to.
struct SilentProcess {
  std::uint32_t pid = 0;
  std::string comm;
  bool operator==(const SilentProcess&) const = default;
  VERBENA_FIELDS { a(m.pid, m.comm); }
};

// Comes when every process that has the device open has the change in force, or has not said so for
// a while: those are named.
struct FaultChanged {
  static constexpr std::size_t kNamedMost = 8;
  bool has_seed = false;  // false: no fault is left
  std::uint64_t seed = 0;
  std::uint32_t silent = 0;          // processes
  std::vector<SilentProcess> named;  // the first of them
  VERBENA_MESSAGE(kFaultChanged) { a(m.has_seed, m.seed, m.silent, m.named); }
};

// Unasked, to a provider, and its answer: is there such a queue pair?
struct FindQueuePair {
  std::uint32_t ticket = 0;
  std::uint32_t qpn = 0;
  VERBENA_MESSAGE(kFindQueuePair) { a(m.ticket, m.qpn); }
};
struct QueuePairFound {
  std::uint32_t ticket = 0;
  bool found = false;
  VERBENA_MESSAGE(kQueuePairFound) { a(m.ticket, m.found); }
};

// The daemon goes down in an orderly way; the context dies as if it had been killed.
struct Shutdown {
  std::string reason;
  VERBENA_MESSAGE(kShutdown) { a(m.reason); }
};

// Unasked, to a provider, in place of the order before; with the ring as descriptor [0] if it is
// on.
struct SetCapture {
  CaptureOrder order;
  VERBENA_MESSAGE(kSetCapture) { a(m.order); }
};

// The daemon stays up at least until this connection's process has ended, even through execve.
struct Hold {
  VERBENA_MESSAGE(kHold) {}
};

// An emulator that was started on demand does not end by itself any more.
struct Stay {
  VERBENA_MESSAGE(kStay) {}
};

// An object of one context, as another process of the user may import it (ibv_import_pd, _mr).
// Beside a region, as descriptor [0], the memory of its owner (/proc/PID/mem).
struct ExportedObject {
  std::uint32_t domain = 0;   // its protection domain, by that one's number
  std::uint64_t address = 0;  // a region's, in the process of its owner
  std::uint64_t length = 0;
  std::uint64_t base = 0;  // by which keys reach it
  std::uint32_t access = 0;
  bool operator==(const ExportedObject&) const = default;
  VERBENA_FIELDS { a(m.domain, m.address, m.length, m.base, m.access); }
};
enum class ObjectKind : std::uint8_t { kDomain = 1, kRegion = 2 };

// An importer asks for an object of the context whose connection has this name at the other end
// (a socket that it was given has it, too). Answered by Imported, when the owner has answered. All
// that a context imports is of the first owner that it names, and lasts until OwnerGone.
struct Import {
  std::string owner;
  ObjectKind kind = ObjectKind::kDomain;
  std::uint32_t number = 0;
  VERBENA_MESSAGE(kImport) { a(m.owner, m.kind, m.number); }
};
struct Imported {
  ExportedObject object;
  VERBENA_MESSAGE(kImported) { a(m.object); }
};
// The same question to the owner, and its answer.
struct ExportQuery {
  std::uint32_t ticket = 0;
  ObjectKind kind = ObjectKind::kDomain;
  std::uint32_t number = 0;
  VERBENA_MESSAGE(kExportQuery) { a(m.ticket, m.kind, m.number); }
};
struct Exported {
  std::uint32_t ticket = 0;
  std::uint32_t code = 0;  // errno
  std::string text;        // of it, in one line
  ExportedObject object;
  VERBENA_MESSAGE(kExported) { a(m.ticket, m.code, m.text, m.object); }
};
// To the importer: the context that it imports from is gone.
struct OwnerGone {
  VERBENA_MESSAGE(kOwnerGone) {}
};

// From a context that uses a further address of its port (a row of the GID table): the socket for
// it, as descriptor [0] beside the answer, of which the same is true as of that of DeviceOpened;
// and as there, from another network namespace, sockets to send from.
struct OpenAddress {
  IpAddress address;
  VERBENA_MESSAGE(kOpenAddress) { a(m.address); }
};

struct AddressOpened {
  IpAddress address;
  VERBENA_MESSAGE(kAddressOpened) { a(m.address); }
};

struct StatusQuery {
  bool resets = false;  // the counters of the ports begin anew at zero after what is shown
  VERBENA_MESSAGE(kStatusQuery) { a(m.resets); }
};

// Answers StatusQuery, in as many messages as it takes, while the asker reads them. First the
// emulator with its rules; then each device with its faults and, one after the other, its contexts
// with their queue pairs and shared receive queues:
//
//   kEmulator kRules* (kDevice kFaults* (kContext kQps* kSrqs* kContextEnd)*)* kEnd
//
// Each but the last carries a JSON object, kRules, kFaults, kQps and kSrqs one or more of them in
// lines.
enum class StatusPart : std::uint8_t {
  kEmulator = 1,
  kDevice = 2,
  kFaults = 3,
  kContext = 4,
  kQps = 5,
  kContextEnd = 6,
  kEnd = 7,
  kSrqs = 8,
  kRules = 9
};
struct StatusText {
  static constexpr std::size_t kTextMost = 32 * 1024;
  StatusPart part = StatusPart::kEnd;
  std::string text;
  VERBENA_MESSAGE(kStatusText) { a(m.part, m.text); }
};

struct Down {
  VERBENA_MESSAGE(kDown) {}
};

struct SetPort {
  std::string device;
  bool up = true;
  VERBENA_MESSAGE(kSetPort) { a(m.device, m.up); }
};

// Tells every context that these of its port's attributes have changed, as a subnet manager's sweep
// may, though they read as before.
struct Announce {
  std::string device;
  std::uint32_t changes = 0;  // PortChange, but for kPortStateChanged
  VERBENA_MESSAGE(kAnnounce) { a(m.device, m.changes); }
};

// Writes the counters of a device (empty: all) into the shadow tree. Answered by Ack when done.
struct RefreshCounters {
  std::string device;
  VERBENA_MESSAGE(kRefreshCounters) { a(m.device); }
};

// What the port of a device has counted, over all processes. Answered by Counters.
struct QueryCounters {
  std::string device;
  VERBENA_MESSAGE(kQueryCounters) { a(m.device); }
};

struct Counters {
  std::vector<std::uint64_t> port;   // by PortCounter
  std::vector<std::uint64_t> drops;  // by DropReason
  VERBENA_MESSAGE(kCounters) { a(m.port, m.drops); }
};

// What `rdma resource` shows; gathered from the providers. Empty device: all. Of a device's queue
// pairs no more than kQpsMost are told.
struct QueryResources {
  std::string device;
  VERBENA_MESSAGE(kQueryResources) { a(m.device); }
};

struct ContextResources {
  std::string device;
  std::uint32_t pid = 0;
  std::string comm;
  ResourceCounts counts;
  std::vector<QpStatus> qps;
  VERBENA_FIELDS { a(m.device, m.pid, m.comm, m.counts, m.qps); }
};

struct Resources {
  static constexpr std::size_t kQpsMost = 1024;
  bool last = true;
  std::vector<ContextResources> contexts;  // one context may be split over several
  VERBENA_MESSAGE(kResources) { a(m.last, m.contexts); }
};

}  // namespace verbena::control
