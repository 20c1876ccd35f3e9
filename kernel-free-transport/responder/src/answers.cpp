// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/responder/answers.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "verbena/wire/crc32.hpp"

namespace verbena::responder {

using wire::Operation;
using wire::Place;
using Packing = wire::Path::Packing;

void Answers::allow(std::uint8_t max_dest_rd_atomic) {
  const std::size_t bound = std::max<std::size_t>(max_dest_rd_atomic, 1);
  // A repeated request may find its first answer, or answers to later requests, still in line.
  line_.reserve(2 * bound);
  saved_.resize(bound);
}

void Answers::reset() {
  line_.clear();
  saved_.clear();
  told_ = 0;
  nak_pending_ = ack_pending_ = ack_urgent_ = false;
}

void Answers::flush(const Position& position) {
  // An acknowledgement would be behind the answers that go out no more.
  const bool owes_ack = !nak_pending_ && line_.empty() && told_ != position.messages;
  if (!nak_pending_) line_.clear();
  ack_pending_ = ack_urgent_ = owes_ack;
}

Response& Answers::add(const wire::PacketView& packet, std::uint32_t message,
                       memory::DomainId domain) {
  Response& r = line_.push();
  r.first = packet.bth.psn;
  r.operation = packet.row->operation;
  r.domain = domain;
  r.message = message;
  return r;
}

void Answers::add_saved(const wire::PacketView& packet, std::uint32_t message,
                        std::uint64_t original) {
  saved_.save(packet.bth.psn, packet.row->operation, original);
  add(packet, message, 0).original = original;
}

Response* Answers::repeat(Psn psn, std::uint32_t message) {
  if (line_.truncate(psn) || line_.size() >= 2 * saved_.most()) return nullptr;
  Response& r = line_.push();
  r.first = psn;
  r.repeated = true;
  r.message = message;
  return &r;
}

void Answers::repeat_saved(const wire::PacketView& packet, std::uint32_t message) {
  const std::uint64_t* original = saved_.find(packet.bth.psn, packet.row->operation);
  if (original == nullptr) return;
  Response* r = repeat(packet.bth.psn, message);
  if (r == nullptr) return;
  r->operation = packet.row->operation;
  r->original = *original;
}

void Answers::set_nak_pending(wire::Aeth aeth) {
  nak_ = aeth;
  nak_pending_ = true;
  if (aeth.kind() == wire::AethKind::kRnrNak) endpoint_.port->rnr_naks_sent.add();
}

std::uint8_t Answers::credits() const {
  if (endpoint_.receives == nullptr || endpoint_.receives->is_shared()) {
    return wire::kCreditsUnlimited;
  }
  return wire::encode_credits(endpoint_.receives->count());
}

std::uint8_t Answers::opcode_of(Operation operation, Place place) const {
  return wire::make_opcode(wire::wire_transport(endpoint_.transport), operation, place);
}

bool Answers::emit_aeth(wire::Aeth aeth, Psn psn, std::uint32_t messages, wire::TxBatch& out) {
  const std::uint8_t opcode = opcode_of(Operation::kAcknowledge, Place::kOnly);
  const wire::OpcodeRow& row = wire::row_of(opcode);
  std::uint8_t* at = out.begin(row.header_bytes);
  if (at == nullptr) return false;
  wire::Bth{opcode, false, endpoint_.migrated, 0,     0,  endpoint_.pkey,
            false,  false, endpoint_.peer,     false, psn}
      .write_to(at);
  aeth.write_to(at + row.aeth_at);
  out.commit(row.header_bytes, endpoint_.destination);
  endpoint_.counters.packets_sent.add();
  told_ = messages;
  return true;
}

Answers::Piece Answers::piece_of(const Response& r, std::uint64_t bytes) const {
  if (r.operation == Operation::kCompareSwap || r.operation == Operation::kFetchAdd) {
    return {1, 0, 0, opcode_of(Operation::kAtomicAcknowledge, Place::kOnly)};
  }
  if (r.operation != Operation::kReadRequest) {
    return {1, 0, 0, opcode_of(Operation::kReadResponse, Place::kOnly)};
  }
  const std::uint32_t psns = Packing::psns_at(r.sent, r.packets, bytes, endpoint_.mtu);
  const bool first = r.sent == 0;
  const bool last = r.sent + psns == r.packets;
  const Place place =
      first ? (last ? Place::kOnly : Place::kFirst) : (last ? Place::kLast : Place::kMiddle);
  const std::uint64_t offset = std::uint64_t{r.sent} * endpoint_.mtu;
  const auto length = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(r.length - offset, std::uint64_t{psns} * endpoint_.mtu));
  return {psns, offset, length, opcode_of(Operation::kReadResponse, place)};
}

void Answers::write_headers(const Response& r, const Piece& piece, std::uint8_t pad,
                            std::uint8_t* at) const {
  const wire::OpcodeRow& row = wire::row_of(piece.opcode);
  wire::Bth{piece.opcode,   false, endpoint_.migrated, pad, 0, endpoint_.pkey, false, false,
            endpoint_.peer, false, r.first + r.sent}
      .write_to(at);
  if (row.aeth) wire::Aeth::ack(credits(), r.message).write_to(at + row.aeth_at);
  if (row.atomic_ack_eth) wire::AtomicAckEth{r.original}.write_to(at + row.atomic_ack_eth_at);
}

// Data of plain memory is borrowed by its packet, or summed while it is copied, as for requests;
// but not both, because its owner may change it at any time. An answer that is given again is
// copied. Borrowed bytes may be missing already: the link finds that out (take_back()).
std::optional<memory::Refusal> Answers::put_payload(const Response& r, const Piece& piece,
                                                    const memory::AccessRequest& request,
                                                    std::uint8_t* to, Carried& carried) {
  auto granted = endpoint_.memory->pin(request);
  if (!granted.ok()) return granted.error();
  carried.pin = std::move(*granted);
  const std::uint32_t length = piece.length;
  const std::uint8_t* bytes = carried.pin.direct();
  const auto packing = [this]() -> const Packing& { return endpoint_.packing(); };
  bool is_there = true;
  if (bytes != nullptr && !r.repeated && length >= packing().borrowed_least &&
      !packing().is_sealed) {
    carried.borrowed = bytes;
  } else if (bytes != nullptr && piece.psns == 1 && wire::crc32_joins(length) &&
             packing().is_sealed) {
    is_there = wire::crc32_copy(to, bytes, length, carried.sum.emplace());
  } else {
    is_there = carried.pin.read(to, 0, length);
  }
  if (is_there) [[likely]]
    return std::nullopt;
  return memory::Refusal::kNotMapped;
}

Answers::Emit Answers::emit(Response& r, wire::TxBatch& out, std::optional<Gone>& gone) {
  const bool may_be_merged = r.packets > 1 && endpoint_.transport == Transport::kRc;
  const Piece piece = piece_of(r, may_be_merged ? endpoint_.packing().merged_most_of(r.length) : 0);
  const wire::OpcodeRow& row = wire::row_of(piece.opcode);
  const std::uint8_t pad = wire::pad_for(piece.length);
  const std::size_t size = row.header_bytes + piece.length + pad;
  if (r.length >= Packing::kBundledLeast && endpoint_.packing().is_bundled) out.be_one_run();
  std::uint8_t* at = out.begin(size);
  if (at == nullptr) return Emit::kBatchFull;
  Carried carried;
  if (piece.length != 0) {
    const memory::AccessRequest request = request_for(r, piece.offset, piece.length);
    if (const auto refusal = put_payload(r, piece, request, at + row.header_bytes, carried))
        [[unlikely]] {
      gone = Gone{r.first + r.sent, request, *refusal};
      return Emit::kDropped;
    }
  }
  std::memset(at + row.header_bytes + piece.length, 0, pad);
  write_headers(r, piece, pad, at);
  out.commit(size, endpoint_.destination);
  if (piece.psns > 1) out.make_merged(piece.psns, size + wire::more_header_bytes(row, piece.psns));
  if (carried.sum) out.note_sum(piece.length, *carried.sum);
  if (carried.borrowed != nullptr) {
    out.borrow(row.header_bytes, carried.borrowed, piece.length);
    out.hold(carried.pin.detach());
  }
  endpoint_.counters.packets_sent.add(piece.psns);
  endpoint_.counters.bytes_sent.add(piece.length);
  r.sent += piece.psns;
  return Emit::kSent;
}

std::optional<Answers::Gone> Answers::take_back(Psn psn, std::uint32_t length) {
  const Response* r = line_.find_sent(psn);
  if (r == nullptr) return std::nullopt;
  line_.clear();
  const auto index = static_cast<std::uint32_t>(psn.distance_from(r->first));
  return Gone{psn, request_for(*r, std::uint64_t{index} * endpoint_.mtu, length),
              memory::Refusal::kNotMapped};
}

bool Answers::emit_ack(const Position& position, wire::TxBatch& out) {
  return emit_aeth(wire::Aeth::ack(credits(), position.messages), position.expected - 1,
                   position.messages, out);
}

void Answers::acknowledge(const Position& position, wire::TxBatch& out) {
  if (emit_ack(position, out)) ack_pending_ = ack_urgent_ = false;
}

bool Answers::send(const Position& position, wire::TxBatch& out, std::optional<Gone>& gone) {
  while (!line_.empty()) {
    Response& r = line_.front();
    const Emit result = emit(r, out, gone);
    if (result == Emit::kDropped) line_.clear();
    if (result != Emit::kSent) return true;
    if (r.sent != r.packets) continue;
    // The answer also acknowledges its request.
    if (!r.repeated) told_ = r.message;
    line_.pop();
  }
  if (ack_pending_ && !nak_pending_ && !emit_ack(position, out)) return true;
  if (nak_pending_) {
    // A NAK acknowledges everything before it.
    if (!emit_aeth(nak_, position.expected, position.messages, out)) return true;
    nak_pending_ = false;
  }
  ack_pending_ = ack_urgent_ = false;
  return false;
}

}  // namespace verbena::responder
