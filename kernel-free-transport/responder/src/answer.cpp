// SPDX-License-Identifier: BSD-2-Clause
// Answers: what is pending, and its packets.
#include <algorithm>
#include <cstring>
#include <utility>

#include "verbena/base/guarded_copy.hpp"
#include "verbena/responder/responder.hpp"
#include "verbena/wire/crc32.hpp"

namespace verbena::responder {

using wire::Operation;
using wire::Place;
using Packing = wire::Path::Packing;

void Responder::set_ack_pending(bool urgent) {
  ack_pending_ = true;
  ack_urgent_ = ack_urgent_ || urgent;
}

void Responder::set_nak_pending(wire::Aeth aeth) {
  nak_ = aeth;
  nak_pending_ = true;
  if (aeth.kind() == wire::AethKind::kRnrNak) endpoint_.port->rnr_naks_sent.add();
}

// A NAK that ends the connection. Always false, so that a check may end in it. UC and UD have no
// NAK: their queue pair ends in silence.
bool Responder::refuse(wire::NakCode code, std::optional<queue::AsyncEvent> event,
                       const char* why) {
  if (!is_reliable(endpoint_.transport)) {
    queue::blame(endpoint_, "a message of the peer cannot be taken in: %s", why);
    endpoint_.fail(event);
    return false;
  }
  queue::blame(endpoint_,
               "the request with PSN 0x%06x of the peer 0x%06x is refused with NAK %s: %s",
               expected_.value(), endpoint_.peer.value(), to_string(code).data(), why);
  set_nak_pending(wire::Aeth::nak(code, message_count_));
  dead_ = true;
  endpoint_.fail(event);
  return false;
}

bool Responder::refuse_access(const char* what, const memory::AccessRequest& request,
                              memory::Refusal refusal) {
  const ShortText why("%s: %s", what, endpoint_.memory->explain(request, refusal).c_str());
  return refuse(wire::NakCode::kRemoteAccess, queue::AsyncEvent::kQpAccessError, why.c_str());
}

std::uint8_t Responder::credits() const {
  if (endpoint_.receives == nullptr || endpoint_.receives->is_shared()) {
    return wire::kCreditsUnlimited;
  }
  return wire::encode_credits(endpoint_.receives->count());
}

std::uint8_t Responder::response_opcode(Operation operation, Place place) const {
  const auto transport = endpoint_.transport == Transport::kRc ? wire::Opcode::kRcAcknowledge
                                                               : wire::Opcode::kXrcAcknowledge;
  const std::uint8_t base = static_cast<std::uint8_t>(transport) & 0xe0;
  switch (operation) {
    case Operation::kAcknowledge:
      return base | 0x11;
    case Operation::kAtomicAcknowledge:
      return base | 0x12;
    default:
      break;
  }
  switch (place) {
    case Place::kFirst:
      return base | 0x0d;
    case Place::kMiddle:
      return base | 0x0e;
    case Place::kLast:
      return base | 0x0f;
    case Place::kOnly:
      break;
  }
  return base | 0x10;
}

bool Responder::emit_aeth_packet(wire::Aeth aeth, Psn psn, wire::TxBatch& out) {
  const std::uint8_t opcode = response_opcode(Operation::kAcknowledge, Place::kOnly);
  const wire::OpcodeRow& row = wire::row_of(opcode);
  std::uint8_t* at = out.begin(row.header_bytes);
  if (at == nullptr) return false;
  wire::Bth{opcode, false, endpoint_.migrated, 0,     0,  endpoint_.pkey,
            false,  false, endpoint_.peer,     false, psn}
      .write_to(at);
  aeth.write_to(at + row.aeth_at);
  out.commit(row.header_bytes, endpoint_.destination);
  endpoint_.counters.packets_sent.add();
  told_count_ = message_count_;
  return true;
}

Responder::Piece Responder::piece_of(const Response& r, std::uint64_t bytes) const {
  if (r.operation == Operation::kCompareSwap || r.operation == Operation::kFetchAdd) {
    return {1, 0, 0, response_opcode(Operation::kAtomicAcknowledge, Place::kOnly)};
  }
  if (r.operation != Operation::kReadRequest) {
    return {1, 0, 0, response_opcode(Operation::kReadResponse, Place::kOnly)};
  }
  const std::uint32_t psns = Packing::psns_at(r.sent, r.packets, bytes, endpoint_.mtu);
  const bool first = r.sent == 0;
  const bool last = r.sent + psns == r.packets;
  const Place place =
      first ? (last ? Place::kOnly : Place::kFirst) : (last ? Place::kLast : Place::kMiddle);
  const std::uint64_t offset = std::uint64_t{r.sent} * endpoint_.mtu;
  const auto length = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(r.length - offset, std::uint64_t{psns} * endpoint_.mtu));
  return {psns, offset, length, response_opcode(Operation::kReadResponse, place)};
}

memory::AccessRequest Responder::request_of(const Response& r, const Piece& piece) const {
  return {r.key,
          r.domain,
          r.address + piece.offset,
          piece.length,
          memory::kRemoteRead,
          endpoint_.number.value()};
}

Result<memory::Pin, memory::Refusal> Responder::pin(const Response& r, const Piece& piece) const {
  return endpoint_.memory->pin(request_of(r, piece));
}

void Responder::write_headers(const Response& r, const Piece& piece, std::uint8_t pad,
                              std::uint8_t* at) const {
  const wire::OpcodeRow& row = wire::row_of(piece.opcode);
  wire::Bth{piece.opcode,   false, endpoint_.migrated, pad, 0, endpoint_.pkey, false, false,
            endpoint_.peer, false, r.first + r.sent}
      .write_to(at);
  if (row.aeth) wire::Aeth::ack(credits(), r.message).write_to(at + row.aeth_at);
  if (row.atomic_ack_eth) wire::AtomicAckEth{r.original}.write_to(at + row.atomic_ack_eth_at);
}

void Responder::sent(Response& r, const Piece& piece) {
  endpoint_.counters.packets_sent.add(piece.psns);
  endpoint_.counters.bytes_sent.add(piece.length);
  r.sent += piece.psns;
}

Responder::Emit Responder::drop_read(const Response& r, const Piece& piece,
                                     memory::Refusal refusal) {
  expected_ = r.first + r.sent;
  refuse_access("an RDMA READ that is being answered", request_of(r, piece), refusal);
  return Emit::kDropped;
}

// Data of plain memory is borrowed by its packet or summed while it is copied, as that of requests
// is; but not both, as its owner may change it at any time. An answer that is given again is
// copied: what was borrowed may be missing, and its packet was lost for that. What is missing
// already is refused here and now: nobody would ask again once a later request is refused.
Responder::Emit Responder::emit(Response& r, wire::TxBatch& out) {
  const bool may_be_merged = r.packets > 1 && endpoint_.transport == Transport::kRc;
  const Piece piece = piece_of(r, may_be_merged ? endpoint_.packing().merged_most_of(r.length) : 0);
  const std::uint32_t length = piece.length;
  const wire::OpcodeRow& row = wire::row_of(piece.opcode);
  const std::uint8_t pad = wire::pad_for(length);
  const std::size_t size = row.header_bytes + length + pad;
  if (r.length >= Packing::kBundledLeast && endpoint_.packing().is_bundled) out.be_one_run();
  std::uint8_t* at = out.begin(size);
  if (at == nullptr) return Emit::kBatchFull;
  memory::Pin pinned;
  const std::uint8_t* borrowed = nullptr;
  std::optional<std::uint32_t> sum;
  if (length != 0) {
    auto granted = pin(r, piece);
    if (!granted.ok()) return drop_read(r, piece, granted.error());
    pinned = std::move(*granted);
    const std::uint8_t* bytes = pinned.direct();
    const bool is_borrowed = bytes != nullptr && !r.repeated &&
                             length >= endpoint_.packing().borrowed_least &&
                             !endpoint_.packing().is_sealed;
    if (is_borrowed) {
      if (!guarded_look(bytes, length)) [[unlikely]]
        return drop_read(r, piece, memory::Refusal::kNotMapped);
      borrowed = bytes;
    } else if (bytes != nullptr && piece.psns == 1 && wire::crc32_joins(length) &&
               endpoint_.packing().is_sealed) {
      if (!wire::crc32_copy(at + row.header_bytes, bytes, length, sum.emplace())) [[unlikely]] {
        return drop_read(r, piece, memory::Refusal::kNotMapped);
      }
    } else if (!pinned.read(at + row.header_bytes, 0, length)) [[unlikely]] {
      return drop_read(r, piece, memory::Refusal::kNotMapped);
    }
  }
  std::memset(at + row.header_bytes + length, 0, pad);
  write_headers(r, piece, pad, at);
  out.commit(size, endpoint_.destination);
  if (piece.psns > 1) out.make_merged(piece.psns, size + wire::more_header_bytes(row, piece.psns));
  if (sum) out.note_sum(length, *sum);
  if (borrowed != nullptr) {
    out.borrow(row.header_bytes, borrowed, length);
    out.hold(pinned.detach());
  }
  sent(r, piece);
  return Emit::kSent;
}

bool Responder::emit_ack(wire::TxBatch& out) {
  return emit_aeth_packet(wire::Aeth::ack(credits(), message_count_), expected_ - 1, out);
}

void Responder::acknowledge(wire::TxBatch& out) {
  if (emit_ack(out)) ack_pending_ = ack_urgent_ = false;
}

bool Responder::poll_transmit(wire::TxBatch& out) {
  while (!responses_.empty()) {
    Response& r = responses_.front();
    const Emit result = emit(r, out);
    if (result == Emit::kBatchFull) return true;
    if (result == Emit::kDropped) {
      responses_.clear();
      break;
    }
    if (r.sent != r.packets) continue;
    // What it answers is acknowledged with it.
    if (!r.repeated) told_count_ = r.message;
    responses_.pop();
  }
  if (ack_pending_ && !nak_pending_ && !emit_ack(out)) return true;
  if (nak_pending_) {
    // A NAK acknowledges all before it.
    if (!emit_aeth_packet(nak_, expected_, out)) return true;
    nak_pending_ = false;
  }
  ack_pending_ = ack_urgent_ = false;
  return false;
}

}  // namespace verbena::responder
