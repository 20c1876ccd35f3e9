// SPDX-License-Identifier: BSD-2-Clause
// The frame of the control protocol: one message per packet of an AF_UNIX seqpacket socket, a
// fixed header before each, little endian, descriptors beside it (SCM_RIGHTS).
//
//    0               2               4               6               8
//   +---------------+---------------+---------------+---------------+
//   |            magic              |    version    |     type      |
//   +---------------+---------------+---------------+---------------+
//   |           sequence            |     length (of the payload)   |
//   +---------------+---------------+---------------+---------------+
//
// The header, `Refused`, `Hello` and `Down` never change between versions, so that any two programs
// can at least tell each other that they do not match, and an emulator of any version can be ended.
// A reply carries the sequence of its request. The sequences of messages that the daemon sends on
// its own have kDaemonSequence set, so both directions count independently.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::control {

inline constexpr std::uint32_t kMagic = 0x31425256;  // "VRB1"
// Version of everything that the processes of one emulator agree on: these messages, the pages that
// they share, and what they send each other through rings and in bundles.
inline constexpr std::uint16_t kProtocolVersion = 23;
inline constexpr std::size_t kHeaderSize = 16;
inline constexpr std::size_t kMaxMessage = 64 * 1024;  // header included
inline constexpr std::size_t kMaxFds = 8;              // descriptors beside one message
inline constexpr std::uint32_t kDaemonSequence = 0x80000000u;

// X(enumerator, number). 0x0200..0x02ff belong to connection management, 0x0300..0x03ff to the
// management datagrams of umad.
#define VERBENA_MESSAGE_TYPES(X) \
  X(kRefused, 0x0001)            \
  X(kAck, 0x0002)                \
  X(kHello, 0x0010)              \
  X(kWelcome, 0x0011)            \
  X(kOpenDevice, 0x0020)         \
  X(kDeviceOpened, 0x0021)       \
  X(kExtraSlot, 0x0022)          \
  X(kSlotAdded, 0x0023)          \
  X(kAttachMulticast, 0x0024)    \
  X(kDetachMulticast, 0x0025)    \
  X(kRelayed, 0x0026)            \
  X(kOpenAddress, 0x0027)        \
  X(kAddressOpened, 0x0028)      \
  X(kStatusRequest, 0x0030)      \
  X(kStatusReport, 0x0031)       \
  X(kPortEvent, 0x0032)          \
  X(kSetFault, 0x0033)           \
  X(kShutdown, 0x0034)           \
  X(kSetCapture, 0x0035)         \
  X(kHold, 0x0040)               \
  X(kStatusQuery, 0x0041)        \
  X(kStatusText, 0x0042)         \
  X(kDown, 0x0043)               \
  X(kSetPort, 0x0044)            \
  X(kRefreshCounters, 0x0045)    \
  X(kQueryResources, 0x0046)     \
  X(kResources, 0x0047)          \
  X(kStay, 0x0048)               \
  X(kCapture, 0x0049)            \
  X(kAnnounce, 0x004a)           \
  X(kQueryCounters, 0x004b)      \
  X(kCounters, 0x004c)           \
  X(kCaptureSource, 0x004d)      \
  X(kCaptureSlot, 0x004e)        \
  X(kCaptureSourceEnded, 0x004f) \
  X(kRingRequest, 0x0050)        \
  X(kRingInbound, 0x0051)        \
  X(kRingAccepted, 0x0052)       \
  X(kRingOutbound, 0x0053)       \
  X(kPeerGone, 0x0054)           \
  X(kImport, 0x0055)             \
  X(kImported, 0x0056)           \
  X(kExportQuery, 0x0057)        \
  X(kExported, 0x0058)           \
  X(kOwnerGone, 0x0059)          \
  X(kRegionChanged, 0x005a)      \
  X(kRegionFollowed, 0x005b)     \
  X(kRegionSettled, 0x005c)      \
  X(kOpenDomain, 0x0060)         \
  X(kDomainOpened, 0x0061)       \
  X(kCloseDomain, 0x0062)        \
  X(kProxyWanted, 0x0063)        \
  X(kProxyAnswer, 0x0064)        \
  X(kProxiesReleased, 0x0065)    \
  X(kReceiverCall, 0x0066)       \
  X(kReceiverAnswer, 0x0067)     \
  X(kReceiverDone, 0x0068)       \
  X(kReceiverEvent, 0x0069)      \
  X(kPeerQuestion, 0x0080)       \
  X(kPeerNews, 0x0081)           \
  X(kQpQuestion, 0x0082)         \
  X(kQpAnswer, 0x0083)           \
  X(kChangeFault, 0x0070)        \
  X(kFaultChanged, 0x0071)       \
  X(kFindQueuePair, 0x0072)      \
  X(kQueuePairFound, 0x0073)     \
  X(kRaiseEvent, 0x0074)         \
  X(kFaultsInForce, 0x0075)      \
  X(kJournalWritten, 0x0076)     \
  X(kJournalQuery, 0x0077)       \
  X(kJournalText, 0x0078)        \
  X(kQueuePairGone, 0x0079)

enum class MessageType : std::uint16_t {
#define VERBENA_MESSAGE_ENUM(id, number) id = number,
  VERBENA_MESSAGE_TYPES(VERBENA_MESSAGE_ENUM)
#undef VERBENA_MESSAGE_ENUM
};

struct Header {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kProtocolVersion;
  std::uint16_t type = 0;
  std::uint32_t sequence = 0;
  std::uint32_t length = 0;

  MessageType message_type() const { return static_cast<MessageType>(type); }
  bool is_from_daemon_itself() const { return (sequence & kDaemonSequence) != 0; }
};

}  // namespace verbena::control
