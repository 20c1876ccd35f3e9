// SPDX-License-Identifier: BSD-2-Clause
// RC and XRC: sequence, order and length of requests (IBTA Vol 1, 9.7.4.1).
#include <algorithm>

#include "verbena/responder/responder.hpp"

namespace verbena::responder {

using wire::NakCode;
using wire::Operation;
using wire::Place;

namespace {

bool is_answered_by_data(Operation operation) {
  return operation != Operation::kSend && operation != Operation::kWrite;
}

}  // namespace

// The message that is arriving must go on as it began, and a new one must begin.
std::optional<NakCode> Responder::check_order(const wire::PacketView& packet) const {
  const wire::OpcodeRow& row = *packet.row;
  if (row.starts_message) {
    return message_ == Message::kNone ? std::nullopt : std::optional(NakCode::kInvalidRequest);
  }
  const Message wanted = row.operation == Operation::kSend ? Message::kSend : Message::kWrite;
  return message_ == wanted ? std::nullopt : std::optional(NakCode::kInvalidRequest);
}

// First and Middle fill the path MTU exactly, Last has at least a byte, none has more. One that
// stands for several is as long as they are, of which only the last need not be full.
std::optional<NakCode> Responder::check_length(const wire::PacketView& packet) const {
  const std::uint64_t length = packet.data_length;
  if (packet.row->place == Place::kOnly && packet.psns == 1) {
    return length > endpoint_.mtu ? std::optional(NakCode::kInvalidRequest) : std::nullopt;
  }
  const std::uint64_t most = std::uint64_t{packet.psns} * endpoint_.mtu;
  const std::uint64_t full = most - endpoint_.mtu;
  const Place place = packet.row->place;
  const bool whole = place == Place::kFirst || place == Place::kMiddle;
  const bool has_some = place == Place::kLast || packet.psns > 1;
  if (length > most || (whole && length != most) || (has_some && length <= full)) {
    return NakCode::kInvalidRequest;
  }
  if (packet.bth.pad != 0 && whole) return NakCode::kInvalidRequest;
  return std::nullopt;
}

// A fault wants it, and the peer hears of it as if this end had a reason of its own.
void Responder::refuse_as_marked(std::uint8_t mark) {
  using wire::NakMark;
  constexpr const char* kWhy = "an injected rule (nak=, complete=) asks for it";
  if (mark > wire::kStatusCodes) {
    gap_reported_ = true;  // what comes behind it brings no other NAK
    return set_nak_pending(wire::Aeth::nak(static_cast<NakCode>(mark), message_count_));
  }
  switch (static_cast<NakMark>(mark)) {
    case NakMark::kRnr:
      not_ready_ = true;
      return set_nak_pending(wire::Aeth::rnr_nak(attributes_.min_rnr_timer, message_count_));
    case NakMark::kPsn:
      return report_gap();
    case NakMark::kInvalid:
      refuse(NakCode::kInvalidRequest, queue::AsyncEvent::kQpRequestError, kWhy);
      return;
    case NakMark::kAccess:
      refuse(NakCode::kRemoteAccess, queue::AsyncEvent::kQpAccessError, kWhy);
      return;
    case NakMark::kNone:
    case NakMark::kOperation:
      break;
  }
  refuse(NakCode::kRemoteOperational, queue::AsyncEvent::kQpFatal, kWhy);
}

void Responder::handle_in_sequence(const wire::PacketView& packet) {
  if (const std::uint8_t mark = wire::BthView(packet.start).mark(); mark != 0) [[unlikely]] {
    if (endpoint_.obeys_marks != nullptr && endpoint_.obeys_marks->read_relaxed()) {
      return refuse_as_marked(mark);
    }
  }
  if (const auto code = check_order(packet)) {
    refuse(*code, queue::AsyncEvent::kQpRequestError, "a message's packets came in a wrong order");
    return;
  }
  if (packet.row->payload || !packet.payload.empty()) {
    if (!packet.row->payload) {
      refuse(NakCode::kInvalidRequest, queue::AsyncEvent::kQpRequestError,
             "a request without data carries some");
      return;
    }
    if (const auto code = check_length(packet)) {
      refuse(*code, queue::AsyncEvent::kQpRequestError,
             "a packet's length does not suit the path MTU: do both ends use the same?");
      return;
    }
  }
  if (packet.row->xrceth && packet.row->starts_message) {
    const std::uint32_t srq = packet.xrceth().srqn;
    shared_ =
        endpoint_.shared == nullptr ? nullptr : endpoint_.shared->find(srq, attributes_.xrc_domain);
    if (shared_ == nullptr) {
      const ShortText why("there is no XRC SRQ 0x%06x (wr.qp_type.xrc.remote_srqn) in this domain",
                          srq);
      refuse(NakCode::kInvalidRequest, std::nullopt, why.c_str());
      return;
    }
  }
  const Psn psn = packet.bth.psn;
  if (!execute(packet)) [[unlikely]]
    return;
  if (packet.row->operation == Operation::kReadRequest) {
    const std::uint32_t length = packet.reth().length;
    expected_ = psn + std::max((length + endpoint_.mtu - 1) / endpoint_.mtu, 1u);
  } else {
    expected_ = psn + packet.psns;
  }
  endpoint_.counters.bytes_received.add(packet.data_length);
  if (packet.bth.ack_request && !is_answered_by_data(packet.row->operation)) {
    set_ack_pending(endpoint_.acknowledges_at_once);
  }
}

void Responder::handle_reliable(const wire::PacketView& packet) {
  if (dead_) {
    endpoint_.drops->count(DropReason::kBadQpState);
    return;
  }
  const std::int32_t distance = packet.bth.psn.distance_from(expected_);
  if (distance == 0) [[likely]] {
    gap_reported_ = not_ready_ = false;
    is_in_step_ = true;
    handle_in_sequence(packet);
    if (!early_.is_empty()) [[unlikely]]
      catch_up_with_early();
  } else if (distance < 0) {
    endpoint_.drops->count(DropReason::kDuplicate);
    if (!is_in_step_) note_foreign_psn(packet.bth.psn);
    handle_duplicate(packet);
  } else {
    if (!is_in_step_) note_foreign_psn(packet.bth.psn);
    handle_early(packet);
  }
}

// A packet that gets lost is repeated; one that comes again and again, and never was expected, is
// of a peer that counts otherwise.
void Responder::note_foreign_psn(Psn psn) {
  constexpr std::uint8_t kBeyondDoubt = 3;
  if (is_reliable(endpoint_.transport) && !(psn == foreign_psn_)) foreign_psns_ = 0;
  foreign_psn_ = psn;
  if (foreign_psns_ >= kBeyondDoubt || ++foreign_psns_ != kBeyondDoubt) return;
  queue::explain(endpoint_,
                 "the peer 0x%06x sends PSN 0x%06x, but the first one that is expected is 0x%06x: "
                 "the peer's sq_psn and the rq_psn of this queue pair must be the same",
                 endpoint_.peer.value(), psn.value(), expected_.value());
}

// What overtook others waits for them. That something is lost is told when so many have come behind
// it that it should have come, too, or when the peer waits for an answer. (An XRC receiver's
// requests may be another process's.)
void Responder::handle_early(const wire::PacketView& packet) {
  if (early_.is_empty()) early_ack_request_ = false;
  const bool is_kept = endpoint_.transport == Transport::kRc && !not_ready_ &&
                       early_.keep(packet, expected_, endpoint_.mtu);
  endpoint_.drops->count(DropReason::kOutOfSequence);
  early_ack_request_ = early_ack_request_ || packet.bth.ack_request;
  if (!is_kept || early_ack_request_ || early_.tells_of_loss()) report_gap();
}

// The gap before them is filled.
void Responder::catch_up_with_early() {
  while (!dead_) {
    const auto packet = early_.take(expected_);
    if (!packet) break;
    handle_in_sequence(*packet);
  }
  if (early_.is_empty() || dead_) return forget_early();
  if (early_ack_request_ || early_.tells_of_loss()) report_gap();
}

void Responder::forget_early() {
  early_.clear();
  early_ack_request_ = false;
}

// Told once; what follows the gap says nothing new (9.7.5.2.8, 9.7.4.1.1).
void Responder::report_gap() {
  if (gap_reported_ || not_ready_) return;
  gap_reported_ = true;
  set_nak_pending(wire::Aeth::nak(NakCode::kPsnSequence, message_count_));
}

// IBTA Vol 1, 9.7.5.1.2 and 9.7.4.1: a SEND or WRITE is acknowledged again and not carried out
// again; a READ is carried out again; an atomic is answered from what was saved.
void Responder::handle_duplicate(const wire::PacketView& packet) {
  switch (packet.row->operation) {
    case Operation::kReadRequest:
      repeat_read(packet);
      return;
    case Operation::kCompareSwap:
    case Operation::kFetchAdd:
    case Operation::kFlush:
    case Operation::kAtomicWrite:
      repeat_atomic(packet);
      return;
    default:
      break;
  }
  // A part of it is new: it was repeated from where a peer stood that has heard less than was said.
  const auto behind = static_cast<std::uint32_t>(expected_.distance_from(packet.bth.psn));
  if (packet.psns > behind && !gap_reported_ && !not_ready_) return report_gap();
  set_ack_pending(true);
}

void Responder::repeat_read(const wire::PacketView& packet) {
  const wire::Reth reth = packet.reth();
  // No request of that length was ever accepted.
  if (reth.length > kMessageMax) return;
  const std::uint32_t packets = std::max((reth.length + endpoint_.mtu - 1) / endpoint_.mtu, 1u);
  const Psn psn = packet.bth.psn;
  // It must lie wholly in what was asked for before.
  if (!packet.payload.empty() ||
      packets > static_cast<std::uint32_t>(expected_.distance_from(psn))) {
    return;
  }
  const memory::AccessRequest request{reth.rkey,   remote_domain(),     reth.va,
                                      reth.length, memory::kRemoteRead, endpoint_.number.value()};
  auto pin = endpoint_.memory->pin(request);
  if (reth.length != 0 && !pin.ok()) {
    // The NAK is for the READ itself, not for what came after it.
    expected_ = psn;
    refuse_access("a repeated RDMA READ", request, pin.error());
    return;
  }
  if (responses_.truncate(psn) || !room_for_repeated()) return;
  Response& r = responses_.push();
  r.first = psn;
  r.repeated = true;
  r.domain = remote_domain();
  r.packets = packets;
  r.key = reth.rkey;
  r.address = reth.va;
  r.length = reth.length;
  r.message = message_count_;
}

void Responder::repeat_atomic(const wire::PacketView& packet) {
  const Psn psn = packet.bth.psn;
  for (const SavedAtomic& saved : saved_) {
    if (!saved.valid || !(saved.psn == psn) || saved.operation != packet.row->operation) continue;
    if (responses_.truncate(psn) || !room_for_repeated()) return;
    Response& r = responses_.push();
    r.first = psn;
    r.repeated = true;
    r.operation = saved.operation;
    r.original = saved.original;
    r.message = message_count_;
    return;
  }
}

}  // namespace verbena::responder
