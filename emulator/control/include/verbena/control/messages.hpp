// SPDX-License-Identifier: BSD-2-Clause
// The messages of the control protocol, as plain values. Each lists its fields once, in `fields`,
// and that list is both its encoder and its decoder (codec.hpp).
//
//   provider    Hello, OpenDevice -> DeviceOpened + [receive socket, stats page, ...]; then the
//               connection lives as long as the context: its end means the other side is dead.
//   preload     Hello -> Welcome (the device list), RefreshCounters, QueryCounters, QueryResources.
//   verbena     Hello, Hold, Stay, StatusQuery, SetPort, Announce, ChangeFault, Down; RaiseEvent
//               (event_messages.hpp), Capture (capture_messages.hpp), JournalQuery
//               (journal_messages.hpp).
//   daemon      StatusRequest, PortEvent, SetFault, Relayed, SetCapture, Shutdown to providers,
//               unasked.
//
// Other messages have their own headers: fault_messages.hpp, status_messages.hpp,
// import_messages.hpp, ring_messages.hpp, xrc_messages.hpp, cm_messages.hpp and so on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "verbena/base/address.hpp"
#include "verbena/base/types.hpp"
#include "verbena/control/device_info.hpp"
#include "verbena/control/fault_messages.hpp"
#include "verbena/control/message.hpp"

namespace verbena::control {

enum class ClientKind : std::uint8_t { kProvider = 1, kPreload = 2, kCommand = 3, kCm = 4 };

// The answer to a request that cannot be carried out. It is the same in all versions.
struct Refused {
  std::uint32_t code = 0;  // errno
  std::string text;        // one line, for people
  VERBENA_MESSAGE(kRefused) { a(m.code, m.text); }
};

struct Ack {
  VERBENA_MESSAGE(kAck) {}
};

// The first message on every connection. It is the same in all versions.
struct Hello {
  ClientKind kind = ClientKind::kProvider;
  std::uint32_t pid = 0;  // as the client sees it; the daemon trusts only SO_PEERCRED
  std::string comm;
  std::string version;  // version of the product
  VERBENA_MESSAGE(kHello) { a(m.kind, m.pid, m.comm, m.version); }
};

struct Welcome {
  std::uint32_t daemon_pid = 0;
  std::string version;  // version of the product
  std::vector<DeviceInfo> devices;
  VERBENA_MESSAGE(kWelcome) { a(m.daemon_pid, m.version, m.devices); }
};

// Opens one context of a device, once per connection.
struct OpenDevice {
  std::string name;
  std::uint64_t network = 0;  // namespace of the program: network_namespace()
  bool is_further = false;    // true for one more engine of an open context
  VERBENA_MESSAGE(kOpenDevice) { a(m.name, m.network, m.is_further); }
};

// Tells a context to record what it sends and receives into a ring of its own, which comes as a
// descriptor (link/capture_ring.hpp).
struct CaptureOrder {
  bool is_on = false;
  // Addresses of senders that record what they send, so that the receiver does not.
  std::vector<IpAddress> recorded_by_sender;
  bool operator==(const CaptureOrder&) const = default;
  VERBENA_FIELDS { a(m.is_on, m.recorded_by_sender); }
};

// Descriptors beside it: [0] the receive socket of this slot, bound to address:4791 (do not connect
// or rebind it), [1] the memfd of the stats page (stats_page.hpp), then `senders` sockets to send
// from. A program in another network namespace than the emulator gets those, because its own
// sockets would lead nowhere. The last descriptor is the ring of the capture, if one is on.
struct DeviceOpened {
  std::uint32_t slot = 0;  // upper bits of every QPN of this context
  DeviceInfo device;
  std::vector<FaultSpec> faults;  // in force now
  std::uint8_t senders = 0;
  CaptureOrder capture;
  std::vector<RuleSpec> rules;  // in force now
  VERBENA_MESSAGE(kDeviceOpened) { a(m.slot, m.device, m.faults, m.senders, m.capture, m.rules); }
};

// Asks for one more slot for the same socket, when the 16384 queue pairs of a slot are used up.
struct ExtraSlot {
  VERBENA_MESSAGE(kExtraSlot) {}
};

struct SlotAdded {
  std::uint32_t slot = 0;
  VERBENA_MESSAGE(kSlotAdded) { a(m.slot); }
};

// A queue pair of this context joins a group. The daemon answers with Ack.
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

// A datagram that reached the daemon's own socket for a group that this context joined. The daemon
// sends one per context and datagram; the context copies it to each of its queue pairs in the
// group. It is lost if the context does not read (a datagram may be).
struct Relayed {
  Gid mgid;
  IpAddress source;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  bool has_grh = true;
  std::vector<std::uint8_t> packet;  // BTH .. pad; ICRC verified and removed
  std::uint32_t flow_label = 0;
  VERBENA_MESSAGE(kRelayed) {
    a(m.mgid, m.source, m.traffic_class, m.hop_limit, m.has_grh, m.packet, m.flow_label);
  }
};

// The bits of PortEvent::changes.
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

// Asks a provider, unasked, whether it has this queue pair. The answer is QueuePairFound.
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
// A provider has destroyed this queue pair, or has none of this number, and a fault is set for it.
// There is no answer.
struct QueuePairGone {
  std::uint32_t qpn = 0;
  VERBENA_MESSAGE(kQueuePairGone) { a(m.qpn); }
};

// The daemon ends in an orderly way. Its contexts then die as if it had been killed.
struct Shutdown {
  std::string reason;
  VERBENA_MESSAGE(kShutdown) { a(m.reason); }
};

// A new capture order for a provider, unasked; it replaces the order before. If it is on, it has
// the ring as descriptor [0], or no descriptor if the capture is the same as before with other
// addresses.
struct SetCapture {
  CaptureOrder order;
  VERBENA_MESSAGE(kSetCapture) { a(m.order); }
};

// Keeps the daemon running at least until this connection's process has ended, even through execve.
struct Hold {
  VERBENA_MESSAGE(kHold) {}
};

// Makes an emulator that was started on demand stay until it is ended.
struct Stay {
  VERBENA_MESSAGE(kStay) {}
};

// A context asks for the socket of a further address of its port (a row of the GID table). The
// answer has it as descriptor [0], with the same rules as in DeviceOpened, and, for another network
// namespace, sockets to send from.
struct OpenAddress {
  IpAddress address;
  VERBENA_MESSAGE(kOpenAddress) { a(m.address); }
};

struct AddressOpened {
  IpAddress address;
  VERBENA_MESSAGE(kAddressOpened) { a(m.address); }
};

// Ends the emulator, even without Hello. It is the same in all versions.
struct Down {
  VERBENA_MESSAGE(kDown) {}
};

struct SetPort {
  std::string device;
  bool up = true;
  VERBENA_MESSAGE(kSetPort) { a(m.device, m.up); }
};

// Tells every context that these attributes of its port have changed, as a subnet manager's sweep
// may. Their values stay the same.
struct Announce {
  std::string device;
  std::uint32_t changes = 0;  // PortChange, except kPortStateChanged
  VERBENA_MESSAGE(kAnnounce) { a(m.device, m.changes); }
};

}  // namespace verbena::control
