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
// The others have headers of their own: fault_messages.hpp, status_messages.hpp,
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

// First on every connection. Frozen for all versions.
struct Hello {
  ClientKind kind = ClientKind::kProvider;
  std::uint32_t pid = 0;  // as the client sees it; the daemon believes only SO_PEERCRED
  std::string comm;
  std::string version;  // of the product
  VERBENA_MESSAGE(kHello) { a(m.kind, m.pid, m.comm, m.version); }
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
  bool is_further = false;    // for one more engine of a context that is open
  VERBENA_MESSAGE(kOpenDevice) { a(m.name, m.network, m.is_further); }
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

// Unasked, to a provider, in place of the order before. If it is on with the ring as descriptor
// [0], or without one if it is the same capture as before, with other addresses.
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

// Ends the emulator, without Hello too. Frozen for all versions.
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

}  // namespace verbena::control
