// SPDX-License-Identifier: BSD-2-Clause
// A whole packet, from the first byte of the BTH to the last pad byte. `parse_packet` checks once
// what can be checked without a queue pair; afterwards every getter of the view is safe.
// `write_headers` is its inverse. Both are inline because every packet passes through them.
//
// The parser leaves to the responder what is answered with a NAK and not dropped: a payload length
// that does not suit the operation or the path MTU, and reserved field values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "verbena/base/drop_reason.hpp"
#include "verbena/base/result.hpp"
#include "verbena/wire/datagram.hpp"
#include "verbena/wire/opcode.hpp"
#include "verbena/wire/piggybacked_ack.hpp"

namespace verbena::wire {

// The fields of the BTH that the receiving half of a queue pair needs.
struct PacketBth {
  Psn psn;
  Qpn dest_qp;
  std::uint16_t pkey = 0;
  std::uint8_t pad = 0;
  bool solicited = false;
  bool migreq = false;
  bool ack_request = false;
  bool operator==(const PacketBth&) const = default;
};

struct PacketView {
  const OpcodeRow* row = nullptr;
  const std::uint8_t* start = nullptr;    // the BTH; the payload may be elsewhere
  std::span<const std::uint8_t> payload;  // without pad
  // Message bytes and PSNs of the packet. (The PSNs that a READ request takes for its responses do
  // not count here.)
  std::size_t data_length = 0;
  std::uint32_t psns = 1;
  // For packets that were merged on arrival (a run): the distance from one packet's payload to the
  // next. 0: `payload` is all of it.
  std::uint32_t payload_step = 0;
  PacketBth bth;
  std::uint8_t opcode = 0;
  const PiggybackedAck* piggybacked_ack = nullptr;

  // Returns the length from BTH to pad.
  std::size_t size() const { return row->header_bytes + payload.size() + bth.pad; }
  void copy_to(std::uint8_t* out) const {
    std::memcpy(out, start, row->header_bytes);
    std::memcpy(out + row->header_bytes, payload.data(), payload.size() + bth.pad);
  }

  // Each getter may be called only if the row has the header.
  XrcEth xrceth() const { return XrcEth::read_from(start + row->xrceth_at); }
  Deth deth() const { return Deth::read_from(start + row->deth_at); }
  Feth feth() const { return Feth::read_from(start + row->feth_at); }
  Reth reth() const { return Reth::read_from(start + row->reth_at); }
  AtomicEth atomic_eth() const { return AtomicEth::read_from(start + row->atomic_eth_at); }
  Aeth aeth() const { return Aeth::read_from(start + row->aeth_at); }
  AtomicAckEth atomic_ack_eth() const {
    return AtomicAckEth::read_from(start + row->atomic_ack_eth_at);
  }
  ImmDt immediate() const { return ImmDt::read_from(start + row->immediate_at); }
  Ieth ieth() const { return Ieth::read_from(start + row->ieth_at); }
};

// Parses into `packet`, which must be newly constructed. Returns nothing, or the reason to drop the
// bytes: kTooShort, kBadVersion, kUnknownOpcode, kBadPad (more pad than payload, or a length that
// is not a whole number of words: IBTA Vol 1, 9.2.5). The bytes must outlive the view. Headers are
// read only from `start`: if another process can write to the packet, it is a copy of the first
// kMaxHeaders bytes.
inline std::optional<DropReason> parse_packet(std::span<const std::uint8_t> bytes,
                                              const std::uint8_t* start, PacketView& packet) {
  if (bytes.size() < Bth::kSize) [[unlikely]]
    return DropReason::kTooShort;
  const BthView bth(start);
  const OpcodeRow& row = row_of(bth.opcode());
  if (bth.version() != 0) [[unlikely]]
    return DropReason::kBadVersion;
  if (!row.valid) [[unlikely]]
    return DropReason::kUnknownOpcode;
  if (bytes.size() < row.header_bytes) [[unlikely]]
    return DropReason::kTooShort;
  const std::size_t behind_headers = bytes.size() - row.header_bytes;
  // A word, because a byte would be stored as a byte and loaded as part of a word, and such a load
  // waits until the store is complete.
  const std::uint32_t pad = bth.pad();
  if (pad > behind_headers || bytes.size() % 4 != 0) [[unlikely]] {
    return DropReason::kBadPad;
  }
  packet.row = &row;
  packet.start = start;
  packet.opcode = bth.opcode();
  packet.bth = {bth.psn(),       bth.dest_qp(), bth.pkey(),       static_cast<std::uint8_t>(pad),
                bth.solicited(), bth.migreq(),  bth.ack_request()};
  packet.payload = bytes.subspan(row.header_bytes, behind_headers - pad);
  packet.data_length = packet.payload.size();
  return std::nullopt;
}
inline std::optional<DropReason> parse_packet(const RxDatagram& datagram, PacketView& packet) {
  const std::uint8_t* copied = datagram.copied_start;
  return parse_packet(datagram.bytes, copied != nullptr ? copied : datagram.bytes.data(), packet);
}
inline Result<PacketView, DropReason> parse_packet(std::span<const std::uint8_t> bytes) {
  PacketView packet;
  if (const auto why = parse_packet(bytes, bytes.data(), packet)) return Failure{*why};
  return packet;
}

// Says whether packets with this opcode may be merged.
constexpr bool may_stand_for_several(const OpcodeRow& row) {
  return row.transport == WireTransport::kRc &&
         (row.operation == Operation::kSend || row.operation == Operation::kWrite ||
          row.operation == Operation::kReadResponse);
}
// Returns how many more header bytes a network would carry than the merged packet has.
constexpr std::uint64_t more_header_bytes(const OpcodeRow& row, std::uint32_t psns) {
  // The first and the last response to a READ have an AETH each.
  const bool has_two = row.operation == Operation::kReadResponse && row.place == Place::kOnly;
  return (psns - std::uint64_t{1}) * Bth::kSize + (psns > 1 && has_two ? Aeth::kSize : 0);
}

// Returns the number of pad bytes behind a payload.
constexpr std::uint8_t pad_for(std::size_t payload_length) {
  return static_cast<std::uint8_t>(-payload_length & 3);
}

// All headers that can precede a payload. Only the headers that the opcode's row names are written.
struct PacketHeaders {
  Bth bth{};
  XrcEth xrceth{};
  Deth deth{};
  Feth feth{};
  Reth reth{};
  AtomicEth atomic_eth{};
  Aeth aeth{};
  AtomicAckEth atomic_ack_eth{};
  ImmDt immediate{};
  Ieth ieth{};
};

// Writes the BTH (with `opcode`, whatever headers.bth.opcode is) and the extension headers in their
// order. Returns their length, at most kMaxHeaders. The opcode must exist.
inline std::size_t write_headers(std::uint8_t opcode, const PacketHeaders& headers,
                                 std::uint8_t* out) {
  const OpcodeRow& row = row_of(opcode);
  VERBENA_CHECK(row.valid);
  headers.bth.write_to(out);
  out[0] = opcode;
  if (row.xrceth) headers.xrceth.write_to(out + row.xrceth_at);
  if (row.deth) headers.deth.write_to(out + row.deth_at);
  if (row.feth) headers.feth.write_to(out + row.feth_at);
  if (row.reth) headers.reth.write_to(out + row.reth_at);
  if (row.atomic_eth) headers.atomic_eth.write_to(out + row.atomic_eth_at);
  if (row.aeth) headers.aeth.write_to(out + row.aeth_at);
  if (row.atomic_ack_eth) headers.atomic_ack_eth.write_to(out + row.atomic_ack_eth_at);
  if (row.immediate) headers.immediate.write_to(out + row.immediate_at);
  if (row.ieth) headers.ieth.write_to(out + row.ieth_at);
  if (row.operation == Operation::kCnp) std::memset(out + Bth::kSize, 0, kCnpReservedBytes);
  return row.header_bytes;
}

}  // namespace verbena::wire
