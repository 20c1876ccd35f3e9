// SPDX-License-Identifier: BSD-2-Clause
// All opcodes of the supported transports, one row each: which headers follow the BTH and where,
// the packet's place in its message, and what it asks of the receiver (IBTA Vol 1, 9.2.1, table
// "OpCode field"; annexes A14 for XRC, A17 for CNP, A19 for FLUSH and ATOMIC WRITE). Reliable
// datagram has no rows: its packets are unknown opcodes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "verbena/base/types.hpp"
#include "verbena/wire/aeth.hpp"
#include "verbena/wire/atomic_eth.hpp"
#include "verbena/wire/bth.hpp"
#include "verbena/wire/deth.hpp"
#include "verbena/wire/feth.hpp"
#include "verbena/wire/immediate.hpp"
#include "verbena/wire/reth.hpp"
#include "verbena/wire/xrceth.hpp"

namespace verbena::wire {

// The top three bits of the opcode.
enum class WireTransport : std::uint8_t {
  kRc = 0,
  kUc = 1,
  kRd = 2,
  kUd = 3,
  kCnp = 4,
  kXrc = 5,
};

constexpr WireTransport wire_transport(Transport transport) {
  switch (transport) {
    case Transport::kRc:
      return WireTransport::kRc;
    case Transport::kXrcSend:
    case Transport::kXrcReceive:
      return WireTransport::kXrc;
    case Transport::kUc:
      return WireTransport::kUc;
    case Transport::kUd:
      break;
  }
  return WireTransport::kUd;
}

enum class Operation : std::uint8_t {
  kSend,
  kWrite,
  kReadRequest,
  kReadResponse,
  kAcknowledge,
  kAtomicAcknowledge,
  kCompareSwap,
  kFetchAdd,
  kFlush,
  kAtomicWrite,
  kCnp,
};

enum class Place : std::uint8_t { kOnly, kFirst, kMiddle, kLast };

// X(enumerator, value, name, transport, operation, place, what follows the BTH)
// clang-format off
#define VERBENA_OPCODES(X) \
  X(kRcSendFirst, 0x00, "RC SEND First", kRc, kSend, kFirst, kPayload)                                                       \
  X(kRcSendMiddle, 0x01, "RC SEND Middle", kRc, kSend, kMiddle, kPayload)                                                    \
  X(kRcSendLast, 0x02, "RC SEND Last", kRc, kSend, kLast, kPayload)                                                          \
  X(kRcSendLastImmediate, 0x03, "RC SEND Last with Immediate", kRc, kSend, kLast, kImm | kPayload)                           \
  X(kRcSendOnly, 0x04, "RC SEND Only", kRc, kSend, kOnly, kPayload)                                                          \
  X(kRcSendOnlyImmediate, 0x05, "RC SEND Only with Immediate", kRc, kSend, kOnly, kImm | kPayload)                           \
  X(kRcWriteFirst, 0x06, "RC RDMA WRITE First", kRc, kWrite, kFirst, kReth | kPayload)                                       \
  X(kRcWriteMiddle, 0x07, "RC RDMA WRITE Middle", kRc, kWrite, kMiddle, kPayload)                                            \
  X(kRcWriteLast, 0x08, "RC RDMA WRITE Last", kRc, kWrite, kLast, kPayload)                                                  \
  X(kRcWriteLastImmediate, 0x09, "RC RDMA WRITE Last with Immediate", kRc, kWrite, kLast, kImm | kPayload)                   \
  X(kRcWriteOnly, 0x0a, "RC RDMA WRITE Only", kRc, kWrite, kOnly, kReth | kPayload)                                          \
  X(kRcWriteOnlyImmediate, 0x0b, "RC RDMA WRITE Only with Immediate", kRc, kWrite, kOnly, kReth | kImm | kPayload)           \
  X(kRcReadRequest, 0x0c, "RC RDMA READ Request", kRc, kReadRequest, kOnly, kReth)                                           \
  X(kRcReadResponseFirst, 0x0d, "RC RDMA READ response First", kRc, kReadResponse, kFirst, kAeth | kPayload)                 \
  X(kRcReadResponseMiddle, 0x0e, "RC RDMA READ response Middle", kRc, kReadResponse, kMiddle, kPayload)                      \
  X(kRcReadResponseLast, 0x0f, "RC RDMA READ response Last", kRc, kReadResponse, kLast, kAeth | kPayload)                    \
  X(kRcReadResponseOnly, 0x10, "RC RDMA READ response Only", kRc, kReadResponse, kOnly, kAeth | kPayload)                    \
  X(kRcAcknowledge, 0x11, "RC Acknowledge", kRc, kAcknowledge, kOnly, kAeth)                                                 \
  X(kRcAtomicAcknowledge, 0x12, "RC ATOMIC Acknowledge", kRc, kAtomicAcknowledge, kOnly, kAeth | kAtomicAck)                 \
  X(kRcCompareSwap, 0x13, "RC CmpSwap", kRc, kCompareSwap, kOnly, kAtomic)                                                   \
  X(kRcFetchAdd, 0x14, "RC FetchAdd", kRc, kFetchAdd, kOnly, kAtomic)                                                        \
  X(kRcSendLastInvalidate, 0x16, "RC SEND Last with Invalidate", kRc, kSend, kLast, kIeth | kPayload)                        \
  X(kRcSendOnlyInvalidate, 0x17, "RC SEND Only with Invalidate", kRc, kSend, kOnly, kIeth | kPayload)                        \
  X(kRcFlush, 0x1c, "RC FLUSH", kRc, kFlush, kOnly, kFeth | kReth)                                                           \
  X(kRcAtomicWrite, 0x1d, "RC ATOMIC WRITE", kRc, kAtomicWrite, kOnly, kReth | kPayload)                                     \
  X(kUcSendFirst, 0x20, "UC SEND First", kUc, kSend, kFirst, kPayload)                                                       \
  X(kUcSendMiddle, 0x21, "UC SEND Middle", kUc, kSend, kMiddle, kPayload)                                                    \
  X(kUcSendLast, 0x22, "UC SEND Last", kUc, kSend, kLast, kPayload)                                                          \
  X(kUcSendLastImmediate, 0x23, "UC SEND Last with Immediate", kUc, kSend, kLast, kImm | kPayload)                           \
  X(kUcSendOnly, 0x24, "UC SEND Only", kUc, kSend, kOnly, kPayload)                                                          \
  X(kUcSendOnlyImmediate, 0x25, "UC SEND Only with Immediate", kUc, kSend, kOnly, kImm | kPayload)                           \
  X(kUcWriteFirst, 0x26, "UC RDMA WRITE First", kUc, kWrite, kFirst, kReth | kPayload)                                       \
  X(kUcWriteMiddle, 0x27, "UC RDMA WRITE Middle", kUc, kWrite, kMiddle, kPayload)                                            \
  X(kUcWriteLast, 0x28, "UC RDMA WRITE Last", kUc, kWrite, kLast, kPayload)                                                  \
  X(kUcWriteLastImmediate, 0x29, "UC RDMA WRITE Last with Immediate", kUc, kWrite, kLast, kImm | kPayload)                   \
  X(kUcWriteOnly, 0x2a, "UC RDMA WRITE Only", kUc, kWrite, kOnly, kReth | kPayload)                                          \
  X(kUcWriteOnlyImmediate, 0x2b, "UC RDMA WRITE Only with Immediate", kUc, kWrite, kOnly, kReth | kImm | kPayload)           \
  X(kUdSendOnly, 0x64, "UD SEND Only", kUd, kSend, kOnly, kDeth | kPayload)                                                  \
  X(kUdSendOnlyImmediate, 0x65, "UD SEND Only with Immediate", kUd, kSend, kOnly, kDeth | kImm | kPayload)                   \
  X(kCnp, 0x81, "CNP", kCnp, kCnp, kOnly, kReserved16)                                                                       \
  X(kXrcSendFirst, 0xa0, "XRC SEND First", kXrc, kSend, kFirst, kXrc | kPayload)                                             \
  X(kXrcSendMiddle, 0xa1, "XRC SEND Middle", kXrc, kSend, kMiddle, kXrc | kPayload)                                          \
  X(kXrcSendLast, 0xa2, "XRC SEND Last", kXrc, kSend, kLast, kXrc | kPayload)                                                \
  X(kXrcSendLastImmediate, 0xa3, "XRC SEND Last with Immediate", kXrc, kSend, kLast, kXrc | kImm | kPayload)                 \
  X(kXrcSendOnly, 0xa4, "XRC SEND Only", kXrc, kSend, kOnly, kXrc | kPayload)                                                \
  X(kXrcSendOnlyImmediate, 0xa5, "XRC SEND Only with Immediate", kXrc, kSend, kOnly, kXrc | kImm | kPayload)                 \
  X(kXrcWriteFirst, 0xa6, "XRC RDMA WRITE First", kXrc, kWrite, kFirst, kXrc | kReth | kPayload)                             \
  X(kXrcWriteMiddle, 0xa7, "XRC RDMA WRITE Middle", kXrc, kWrite, kMiddle, kXrc | kPayload)                                  \
  X(kXrcWriteLast, 0xa8, "XRC RDMA WRITE Last", kXrc, kWrite, kLast, kXrc | kPayload)                                        \
  X(kXrcWriteLastImmediate, 0xa9, "XRC RDMA WRITE Last with Immediate", kXrc, kWrite, kLast, kXrc | kImm | kPayload)         \
  X(kXrcWriteOnly, 0xaa, "XRC RDMA WRITE Only", kXrc, kWrite, kOnly, kXrc | kReth | kPayload)                                \
  X(kXrcWriteOnlyImmediate, 0xab, "XRC RDMA WRITE Only with Immediate", kXrc, kWrite, kOnly, kXrc | kReth | kImm | kPayload) \
  X(kXrcReadRequest, 0xac, "XRC RDMA READ Request", kXrc, kReadRequest, kOnly, kXrc | kReth)                                 \
  X(kXrcReadResponseFirst, 0xad, "XRC RDMA READ response First", kXrc, kReadResponse, kFirst, kAeth | kPayload)              \
  X(kXrcReadResponseMiddle, 0xae, "XRC RDMA READ response Middle", kXrc, kReadResponse, kMiddle, kPayload)                   \
  X(kXrcReadResponseLast, 0xaf, "XRC RDMA READ response Last", kXrc, kReadResponse, kLast, kAeth | kPayload)                 \
  X(kXrcReadResponseOnly, 0xb0, "XRC RDMA READ response Only", kXrc, kReadResponse, kOnly, kAeth | kPayload)                 \
  X(kXrcAcknowledge, 0xb1, "XRC Acknowledge", kXrc, kAcknowledge, kOnly, kAeth)                                              \
  X(kXrcAtomicAcknowledge, 0xb2, "XRC ATOMIC Acknowledge", kXrc, kAtomicAcknowledge, kOnly, kAeth | kAtomicAck)              \
  X(kXrcCompareSwap, 0xb3, "XRC CmpSwap", kXrc, kCompareSwap, kOnly, kXrc | kAtomic)                                         \
  X(kXrcFetchAdd, 0xb4, "XRC FetchAdd", kXrc, kFetchAdd, kOnly, kXrc | kAtomic)                                              \
  X(kXrcSendLastInvalidate, 0xb6, "XRC SEND Last with Invalidate", kXrc, kSend, kLast, kXrc | kIeth | kPayload)              \
  X(kXrcSendOnlyInvalidate, 0xb7, "XRC SEND Only with Invalidate", kXrc, kSend, kOnly, kXrc | kIeth | kPayload)              \
  X(kXrcFlush, 0xbc, "XRC FLUSH", kXrc, kFlush, kOnly, kXrc | kFeth | kReth)                                                 \
  X(kXrcAtomicWrite, 0xbd, "XRC ATOMIC WRITE", kXrc, kAtomicWrite, kOnly, kXrc | kReth | kPayload)
// clang-format on

enum class Opcode : std::uint8_t {
#define VERBENA_OPCODE_ENUM(id, value, ...) id = value,
  VERBENA_OPCODES(VERBENA_OPCODE_ENUM)
#undef VERBENA_OPCODE_ENUM
};

// A congestion notification carries sixteen reserved bytes of zero behind its BTH (annex A17).
inline constexpr std::size_t kCnpReservedBytes = 16;

struct OpcodeRow {
  bool valid = false;
  WireTransport transport = WireTransport::kRc;
  Operation operation = Operation::kSend;
  Place place = Place::kOnly;

  // The headers that follow the BTH, in the order of the *_at offsets.
  bool xrceth = false;
  bool deth = false;
  bool feth = false;
  bool reth = false;
  bool atomic_eth = false;
  bool aeth = false;
  bool atomic_ack_eth = false;
  bool immediate = false;
  bool ieth = false;
  bool has_seldom = false;  // has a header other than RETH and AETH

  bool payload = false;  // may carry a payload
  bool request = false;  // from requester to responder; false for responses and CNP
  bool response = false;
  bool starts_message = false;  // Only or First
  bool ends_message = false;    // Only or Last
  // Takes a receive work request: the first packet of a SEND, or a WRITE's packet with immediate.
  bool consumes_receive = false;
  // The receive completes with this packet.
  bool completes_receive = false;

  std::uint8_t header_bytes = 0;  // BTH and all extension headers

  // The offset of each header from the first byte of the BTH; 0 if absent.
  std::uint8_t xrceth_at = 0;
  std::uint8_t deth_at = 0;
  std::uint8_t feth_at = 0;
  std::uint8_t reth_at = 0;
  std::uint8_t atomic_eth_at = 0;
  std::uint8_t aeth_at = 0;
  std::uint8_t atomic_ack_eth_at = 0;
  std::uint8_t immediate_at = 0;
  std::uint8_t ieth_at = 0;

  std::string_view name;
};

namespace detail {

enum Follows : unsigned {
  kXrc = 1u << 0,
  kDeth = 1u << 1,
  kFeth = 1u << 2,
  kReth = 1u << 3,
  kAtomic = 1u << 4,
  kAeth = 1u << 5,
  kAtomicAck = 1u << 6,
  kImm = 1u << 7,
  kIeth = 1u << 8,
  kPayload = 1u << 9,
  kReserved16 = 1u << 10,
};

constexpr bool is_response(Operation op) {
  return op == Operation::kReadResponse || op == Operation::kAcknowledge ||
         op == Operation::kAtomicAcknowledge;
}

constexpr OpcodeRow make_row(std::string_view name, WireTransport transport, Operation operation,
                             Place place, unsigned follows) {
  OpcodeRow row;
  row.valid = true;
  row.name = name;
  row.transport = transport;
  row.operation = operation;
  row.place = place;

  std::size_t at = Bth::kSize;
  const auto header = [&](unsigned bit, std::size_t size, bool& has, std::uint8_t& offset) {
    has = (follows & bit) != 0;
    if (!has) return;
    offset = static_cast<std::uint8_t>(at);
    at += size;
  };
  header(kXrc, XrcEth::kSize, row.xrceth, row.xrceth_at);
  header(kDeth, Deth::kSize, row.deth, row.deth_at);
  header(kFeth, Feth::kSize, row.feth, row.feth_at);
  header(kReth, Reth::kSize, row.reth, row.reth_at);
  header(kAtomic, AtomicEth::kSize, row.atomic_eth, row.atomic_eth_at);
  header(kAeth, Aeth::kSize, row.aeth, row.aeth_at);
  header(kAtomicAck, AtomicAckEth::kSize, row.atomic_ack_eth, row.atomic_ack_eth_at);
  header(kImm, ImmDt::kSize, row.immediate, row.immediate_at);
  header(kIeth, Ieth::kSize, row.ieth, row.ieth_at);
  row.has_seldom = (follows & (kXrc | kDeth | kFeth | kAtomic | kAtomicAck | kImm | kIeth)) != 0;
  if (follows & kReserved16) at += kCnpReservedBytes;
  row.header_bytes = static_cast<std::uint8_t>(at);

  row.payload = (follows & kPayload) != 0;
  row.response = is_response(operation);
  row.request = !row.response && operation != Operation::kCnp;
  row.starts_message = place == Place::kOnly || place == Place::kFirst;
  row.ends_message = place == Place::kOnly || place == Place::kLast;
  const bool send = operation == Operation::kSend;
  const bool write_immediate = operation == Operation::kWrite && row.immediate;
  row.consumes_receive = (send && row.starts_message) || write_immediate;
  row.completes_receive = (send && row.ends_message) || write_immediate;
  return row;
}

constexpr std::array<OpcodeRow, 256> make_opcode_table() {
  std::array<OpcodeRow, 256> table{};
#define VERBENA_OPCODE_ROW(id, value, name, transport, operation, place, follows) \
  table[value] =                                                                  \
      make_row(name, WireTransport::transport, Operation::operation, Place::place, follows);
  VERBENA_OPCODES(VERBENA_OPCODE_ROW)
#undef VERBENA_OPCODE_ROW
  return table;
}

}  // namespace detail

inline constexpr std::array<OpcodeRow, 256> kOpcodeTable = detail::make_opcode_table();

// Returns the row of an opcode. Opcodes that do not exist have a row with `valid` false.
constexpr const OpcodeRow& row_of(std::uint8_t opcode) { return kOpcodeTable[opcode]; }
constexpr const OpcodeRow& row_of(Opcode opcode) {
  return kOpcodeTable[static_cast<std::uint8_t>(opcode)];
}

inline constexpr std::uint8_t kNoOpcode = 0xff;

namespace detail {

constexpr std::size_t inverse_index(WireTransport transport, Operation operation, Place place,
                                    bool immediate, bool invalidate) {
  return static_cast<std::size_t>(transport) << 8 | static_cast<std::size_t>(operation) << 4 |
         static_cast<std::size_t>(place) << 2 | (immediate ? 2u : 0u) | (invalidate ? 1u : 0u);
}

constexpr std::array<std::uint8_t, 6 << 8> make_inverse_table() {
  std::array<std::uint8_t, 6 << 8> table{};
  for (std::uint8_t& entry : table) entry = kNoOpcode;
  for (std::size_t opcode = 0; opcode < kOpcodeTable.size(); ++opcode) {
    const OpcodeRow& row = kOpcodeTable[opcode];
    if (!row.valid) continue;
    table[inverse_index(row.transport, row.operation, row.place, row.immediate, row.ieth)] =
        static_cast<std::uint8_t>(opcode);
  }
  return table;
}
inline constexpr std::array<std::uint8_t, 6 << 8> kInverseTable = make_inverse_table();

}  // namespace detail

// Returns the opcode of such a packet, or kNoOpcode if the transport has none. It is one table
// look-up.
constexpr std::uint8_t make_opcode(WireTransport transport, Operation operation, Place place,
                                   bool immediate = false, bool invalidate = false) {
  return detail::kInverseTable[detail::inverse_index(transport, operation, place, immediate,
                                                     invalidate)];
}

}  // namespace verbena::wire
