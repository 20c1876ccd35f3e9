// SPDX-License-Identifier: BSD-2-Clause
// Checks sequence, order and length of requests: RC and XRC (IBTA Vol 1, 9.7.4.1), UC (9.8.2.2).
#include "verbena/responder/responder.hpp"

#include "verbena/responder/datagrams.hpp"

namespace verbena::responder {

using wire::NakCode;
using wire::Operation;
using wire::Place;

namespace {

bool is_answered_by_data(Operation operation) {
  return operation != Operation::kSend && operation != Operation::kWrite;
}

}  // namespace

// --- life --------------------------------------------------------------------------------------

Responder::Responder(queue::Endpoint& endpoint)
    : endpoint_(endpoint), receive_(endpoint), answers_(endpoint) {}

void Responder::start(Psn expected) {
  position_ = {expected, 0};
  first_ = expected;
  answers_.note_told(0);
  message_ = Message::kNone;
  dead_ = false;
  mismatch_.start();
  forget_early();
}

void Responder::resume_at(Psn expected, std::uint32_t message_count) {
  position_ = {expected, message_count & kMask24};
  answers_.note_told(position_.messages);
  message_ = Message::kNone;
  gap_reported_ = not_ready_ = is_gap_all_ = false;
  forget_early();
}

void Responder::set_attributes(const ResponderAttributes& attributes, bool resize) {
  attributes_ = attributes;
  if (resize) answers_.allow(attributes.max_dest_rd_atomic);
}

void Responder::reset() {
  message_ = Message::kNone;
  position_.messages = 0;
  receive_.give_up();
  receive_.lead_to(nullptr);
  answers_.reset();
  gap_reported_ = not_ready_ = is_gap_all_ = dead_ = false;
  forget_early();
}

void Responder::flush() {
  receive_.flush();
  message_ = Message::kNone;
  forget_early();
  answers_.flush(position_);
}

void Responder::forget(const queue::SharedReceive* shared) {
  if (receive_.forget(shared)) message_ = Message::kNone;
}

void Responder::handle_request(const wire::PacketView& packet, const wire::RxDatagram& datagram) {
  endpoint_.counters.packets_received.add(packet.psns);
  if (is_reliable(endpoint_.transport)) {
    handle_reliable(packet);
  } else if (endpoint_.transport == Transport::kUc) {
    handle_uc(packet);
  } else {
    std::optional<ReceiveInUse::Failed> failed;
    take_datagram(endpoint_, receive_, packet, datagram, failed);
    if (failed) refuse(failed->code, std::nullopt, failed->why.c_str());
  }
}

bool Responder::poll_transmit(wire::TxBatch& out) {
  std::optional<Answers::Gone> gone;
  while (answers_.send(position_, out, gone)) {
    if (!gone) return true;
    refuse_gone(*gone);
    gone.reset();
  }
  return false;
}

// By now a NAK for a later request may have gone. The peer takes the NAK for the earlier one, too.
void Responder::note_gone(Psn psn, std::uint32_t length) {
  if (const auto gone = answers_.take_back(psn, length)) refuse_gone(*gone);
}

// --- RC and XRC --------------------------------------------------------------------------------

void Responder::handle_reliable(const wire::PacketView& packet) {
  if (dead_) {
    endpoint_.drops->count(DropReason::kBadQpState);
    return;
  }
  const std::int32_t distance = packet.bth.psn.distance_from(position_.expected);
  if (distance == 0) [[likely]] {
    if (gap_reported_ || not_ready_) [[unlikely]] {
      // A NAK that is still pending would ask for a packet that the peer has perhaps not sent.
      if (is_gap_all_) answers_.withdraw_nak();
      gap_reported_ = not_ready_ = is_gap_all_ = false;
    }
    mismatch_.note_expected();
    handle_in_sequence(packet);
    if (!early_.is_empty()) [[unlikely]]
      catch_up_with_early();
    return;
  }
  note_foreign_psn(packet.bth.psn);
  if (distance < 0) {
    endpoint_.drops->count(DropReason::kDuplicate);
    handle_duplicate(packet);
  } else {
    handle_early(packet);
  }
}

void Responder::handle_in_sequence(const wire::PacketView& packet) {
  if (const std::uint8_t mark = wire::BthView(packet.start).mark(); mark != 0) [[unlikely]] {
    if (endpoint_.obeys_marks != nullptr && endpoint_.obeys_marks->read_relaxed()) {
      return refuse_as_marked(mark);
    }
  }
  if (!is_well_formed(packet)) return;
  if (packet.row->xrceth && packet.row->starts_message && !find_shared(packet)) return;
  const Psn psn = packet.bth.psn;
  if (!execute(packet)) [[unlikely]]
    return;
  const bool is_read = packet.row->operation == Operation::kReadRequest;
  position_.expected = psn + (is_read ? packets_of(packet.reth().length) : packet.psns);
  endpoint_.counters.bytes_received.add(packet.data_length);
  if (packet.bth.ack_request && !is_answered_by_data(packet.row->operation)) {
    answers_.set_ack_pending(endpoint_.acknowledges_at_once);
  }
}

// Returns whether the packet goes on as the arriving message began, or begins one if none is
// arriving.
bool Responder::continues_message(const wire::OpcodeRow& row) const {
  if (row.starts_message) return message_ == Message::kNone;
  return message_ == (row.operation == Operation::kSend ? Message::kSend : Message::kWrite);
}

// First and Middle fill the path MTU exactly, Last has at least a byte, none has more than the MTU.
// A merged packet is as long as those that it stands for, of which only the last need not be full.
bool Responder::has_right_length(const wire::PacketView& packet) const {
  const std::uint64_t length = packet.data_length;
  const Place place = packet.row->place;
  if (place == Place::kOnly && packet.psns == 1) return length <= endpoint_.mtu;
  const std::uint64_t most = std::uint64_t{packet.psns} * endpoint_.mtu;
  const std::uint64_t full = most - endpoint_.mtu;
  const bool whole = place == Place::kFirst || place == Place::kMiddle;
  const bool has_some = place == Place::kLast || packet.psns > 1;
  if (length > most || (whole && length != most) || (has_some && length <= full)) return false;
  return packet.bth.pad == 0 || !whole;
}

bool Responder::is_well_formed(const wire::PacketView& packet) {
  if (!continues_message(*packet.row)) {
    return refuse_request("a message's packets came in a wrong order");
  }
  if (!packet.row->payload && packet.payload.empty()) return true;
  if (!packet.row->payload) return refuse_request("a request without data carries some");
  if (has_right_length(packet)) [[likely]]
    return true;
  return refuse_request(words_on_length(packet).c_str());
}

ShortText Responder::words_on_length(const wire::PacketView& packet) const {
  return ShortText(
      "a packet of %llu bytes does not suit path_mtu, which is %u bytes here: both ends must have "
      "the same",
      static_cast<unsigned long long>((packet.data_length + packet.psns - 1) / packet.psns),
      endpoint_.mtu);
}

// XRC: finds the SRQ that the request names.
bool Responder::find_shared(const wire::PacketView& packet) {
  const std::uint32_t number = packet.xrceth().srqn;
  queue::SharedReceive* shared = endpoint_.shared == nullptr
                                     ? nullptr
                                     : endpoint_.shared->find(number, attributes_.xrc_domain);
  receive_.lead_to(shared);
  if (shared != nullptr) return true;
  const ShortText why("there is no XRC SRQ 0x%06x (wr.qp_type.xrc.remote_srqn) in this domain",
                      number);
  // The queue pair has no completion queue in which its owner could see it.
  return refuse(NakCode::kInvalidRequest, queue::AsyncEvent::kQpRequestError, why.c_str());
}

// An early packet waits for those that it overtook. The gap is reported when so many packets have
// come behind it that the missing one should have come as well, or when the peer waits for an
// answer. (An XRC receiver keeps none: its requests may be another process's.)
void Responder::handle_early(const wire::PacketView& packet) {
  if (early_.is_empty()) early_ack_request_ = false;
  const bool is_kept = endpoint_.transport == Transport::kRc && !not_ready_ &&
                       early_.keep(packet, position_.expected, endpoint_.mtu);
  endpoint_.drops->count(DropReason::kOutOfSequence);
  early_ack_request_ = early_ack_request_ || packet.bth.ack_request;
  if (!is_kept || early_ack_request_ || early_.tells_of_loss()) report_gap(is_kept);
  if (!is_kept) is_gap_all_ = false;
}

// Handles the early packets when the gap before them is filled.
void Responder::catch_up_with_early() {
  while (!dead_) {
    const auto packet = early_.take(position_.expected);
    if (!packet) break;
    handle_in_sequence(*packet);
  }
  if (early_.is_empty() || dead_) return forget_early();
  if (early_ack_request_ || early_.tells_of_loss()) report_gap(true);
}

void Responder::forget_early() {
  early_.clear();
  early_ack_request_ = false;
}

// Reports a gap once; what follows the gap says nothing new (9.7.5.2.8, 9.7.4.1.1).
void Responder::report_gap(bool is_all) {
  if (gap_reported_ || not_ready_) return;
  gap_reported_ = true;
  is_gap_all_ = is_all;
  answers_.set_nak_pending(wire::Aeth::nak(NakCode::kPsnSequence, position_.messages));
}

// IBTA Vol 1, 9.7.5.1.2 and 9.7.4.1: a SEND or WRITE is acknowledged again and not carried out
// again; a READ is carried out again; an atomic is answered from what was saved.
void Responder::handle_duplicate(const wire::PacketView& packet) {
  switch (packet.row->operation) {
    case Operation::kReadRequest:
      return repeat_read(packet);
    case Operation::kCompareSwap:
    case Operation::kFetchAdd:
    case Operation::kFlush:
    case Operation::kAtomicWrite:
      return answers_.repeat_saved(packet, position_.messages);
    default:
      break;
  }
  // A part of the packet is new: the peer repeated it from the last PSN that it has heard of.
  const auto behind = static_cast<std::uint32_t>(position_.expected.distance_from(packet.bth.psn));
  if (packet.psns > behind && !gap_reported_ && !not_ready_) return report_gap(false);
  answers_.set_ack_pending(true);
}

void Responder::repeat_read(const wire::PacketView& packet) {
  const wire::Reth reth = packet.reth();
  // No request of that length was ever accepted.
  if (reth.length > kMessageMax) return;
  const std::uint32_t packets = packets_of(reth.length);
  const Psn psn = packet.bth.psn;
  // The READ must lie wholly in what was asked for before.
  if (!packet.payload.empty() ||
      packets > static_cast<std::uint32_t>(position_.expected.distance_from(psn))) {
    return;
  }
  const auto request = request_for(reth.rkey, reth.va, reth.length, memory::kRemoteRead);
  const auto pin = endpoint_.memory->pin(request);
  if (reth.length != 0 && !pin.ok()) {
    // The NAK is for the READ itself, not for what came after it.
    position_.expected = psn;
    refuse_access("a repeated RDMA READ", request, pin.error());
    return;
  }
  Response* r = answers_.repeat(psn, position_.messages);
  if (r == nullptr) return;
  r->domain = request.domain;
  r->packets = packets;
  r->key = reth.rkey;
  r->address = reth.va;
  r->length = reth.length;
}

// --- UC ----------------------------------------------------------------------------------------

// After a gap, everything up to the next start of a message is dropped. The receive that a broken
// message had begun to fill serves the next one. A message may start with any PSN that is not just
// behind, because the PSN before may have been damaged, or the sender may have begun anew.
void Responder::handle_uc(const wire::PacketView& packet) {
  const wire::OpcodeRow& row = *packet.row;
  // A packet that comes this soon behind its successors is a network's duplicate or straggler.
  constexpr std::int32_t kStragglersMost = 1024;
  const std::int32_t behind = position_.expected.distance_from(packet.bth.psn);
  if (behind > 0 && (behind <= kStragglersMost || !row.starts_message)) {
    if (packet.bth.psn == first_ && behind > 1) {
      queue::explain(endpoint_,
                     "a message with the first PSN (0x%06x) came again and was dropped: if the "
                     "peer 0x%06x has begun anew, this queue pair must go through RESET as well",
                     first_.value(), endpoint_.peer.value());
    }
    note_foreign_psn(packet.bth.psn);
    return endpoint_.drops->count(DropReason::kDuplicate);
  }
  mismatch_.note_expected();
  const bool in_order = packet.bth.psn == position_.expected;
  position_.expected = packet.bth.psn + 1;
  if (!in_order || row.starts_message) message_ = Message::kNone;
  if (!continues_message(row)) return drop_message(DropReason::kOutOfSequence);
  if (!has_right_length(packet)) [[unlikely]] {
    queue::explain(endpoint_, "a message of the peer 0x%06x was dropped: %s",
                   endpoint_.peer.value(), words_on_length(packet).c_str());
    return drop_message(DropReason::kMalformed);
  }
  const bool send = row.operation == Operation::kSend;
  if (!(send ? execute_uc_send(packet) : execute_uc_write(packet))) {
    message_ = Message::kNone;
    return;
  }
  endpoint_.counters.bytes_received.add(packet.payload.size());
  message_ = send ? Message::kSend : Message::kWrite;
  if (!row.ends_message) return;
  message_ = Message::kNone;
  (send ? endpoint_.port->received.sends : endpoint_.port->received.writes).add();
  if (send) complete_receive(packet, queue::CompletionOpcode::kReceive, receive_.filled());
  if (!send && row.immediate) {
    complete_receive(packet, queue::CompletionOpcode::kReceiveWriteImmediate, write_.length);
  }
}

void Responder::drop_message(DropReason reason) {
  message_ = Message::kNone;
  endpoint_.drops->count(reason);
}

// --- refusals ----------------------------------------------------------------------------------

void Responder::note_foreign_psn(Psn psn) {
  if (!mismatch_.note_foreign(psn, is_reliable(endpoint_.transport))) return;
  queue::explain(endpoint_,
                 "the peer 0x%06x sends PSN 0x%06x, but the first one that is expected is 0x%06x: "
                 "the peer's sq_psn and the rq_psn of this queue pair must be the same",
                 endpoint_.peer.value(), psn.value(), position_.expected.value());
}

// An injected fault asks for this, and the peer hears of it as if this end had a reason of its own.
void Responder::refuse_as_marked(std::uint8_t mark) {
  using wire::NakMark;
  constexpr const char* kWhy = "an injected rule (nak=, complete=) asks for it";
  if (mark > wire::kStatusCodes) {
    gap_reported_ = true;  // packets behind it bring no other NAK
    return answers_.set_nak_pending(
        wire::Aeth::nak(static_cast<NakCode>(mark), position_.messages));
  }
  switch (static_cast<NakMark>(mark)) {
    case NakMark::kRnr:
      refuse_not_ready();
      return;
    case NakMark::kPsn:
      return report_gap(false);
    case NakMark::kInvalid:
      refuse_request(kWhy);
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

// Sends a NAK that ends the connection. UC and UD have no NAK: there the queue pair ends in
// silence.
bool Responder::refuse(NakCode code, std::optional<queue::AsyncEvent> event, const char* why) {
  if (!is_reliable(endpoint_.transport)) {
    queue::blame(endpoint_, "a message of the peer cannot be taken in: %s", why);
    endpoint_.fail(event);
    return false;
  }
  queue::blame(endpoint_,
               "the request with PSN 0x%06x of the peer 0x%06x is refused with NAK %s: %s",
               position_.expected.value(), endpoint_.peer.value(), to_string(code).data(), why);
  answers_.set_nak_pending(wire::Aeth::nak(code, position_.messages));
  dead_ = true;
  endpoint_.fail(event);
  return false;
}

bool Responder::refuse_access(const char* what, const memory::AccessRequest& request,
                              memory::Refusal refusal) {
  const ShortText why("%s: %s", what, endpoint_.memory->explain(request, refusal).c_str());
  return refuse(NakCode::kRemoteAccess, queue::AsyncEvent::kQpAccessError, why.c_str());
}

// The NAK is for the first packet that is missing.
void Responder::refuse_gone(const Answers::Gone& gone) {
  position_.expected = gone.psn;
  refuse_access("an RDMA READ that is being answered", gone.request, gone.refusal);
}

// Refuses another READ or atomic operation.
bool Responder::refuse_one_more() {
  const ShortText why(
      "more READs and atomics are outstanding than max_dest_rd_atomic = %u allows "
      "(the peer's max_rd_atomic must not be more)",
      unsigned{attributes_.max_dest_rd_atomic});
  return refuse_request(why.c_str());
}

// Refuses a message because there is no receive.
bool Responder::refuse_not_ready() {
  not_ready_ = true;
  answers_.set_nak_pending(wire::Aeth::rnr_nak(attributes_.min_rnr_timer, position_.messages));
  return false;
}

}  // namespace verbena::responder
