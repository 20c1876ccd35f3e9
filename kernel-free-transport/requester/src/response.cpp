// SPDX-License-Identifier: BSD-2-Clause
// What comes back: acknowledgements, NAKs, data.
#include <algorithm>

#include "verbena/requester/requester.hpp"

namespace verbena::requester {

using queue::Status;
using queue::WorkOpcode;
using wire::Operation;

// Of an answer that goes as far as this, whether it may be one.
bool Requester::is_expected(Psn last, wire::Aeth aeth) {
  if (!last.is_before(psns_.sent())) {
    note_foreign_answer(last, DropReason::kGhostAck);
    return false;
  }
  if (aeth.kind() == wire::AethKind::kReserved) {
    endpoint_.drops->count(DropReason::kBadSyndrome);
    return false;
  }
  return true;
}

void Requester::handle_response(const wire::PacketView& packet, TimeNs now) {
  endpoint_.counters.packets_received.add(packet.psns);
  const Psn psn = packet.bth.psn;
  const Psn last = psn + (packet.psns - 1);
  if (!is_expected(last, packet.row->aeth ? packet.aeth() : wire::Aeth{})) return;
  timer_.heard(now);
  if (packet.row->operation == Operation::kAcknowledge) {
    handle_acknowledge(psn, packet.aeth(), now);
  } else {
    handle_data(packet, now);
  }
  retire();
  if (psns_.is_all_answered()) give_up_turn();
}

void Requester::handle_piggybacked_ack(const wire::PiggybackedAck& ack, TimeNs now) {
  endpoint_.counters.packets_received.add();
  if (!is_expected(ack.psn, ack.aeth)) return;
  timer_.heard(now);
  handle_acknowledge(ack.psn, ack.aeth, now);
  retire();
  if (psns_.is_all_answered()) give_up_turn();
}

void Requester::handle_acknowledge(Psn psn, wire::Aeth aeth, TimeNs now) {
  switch (aeth.kind()) {
    case wire::AethKind::kAck:
      handle_ack(psn, aeth, now);
      return;
    case wire::AethKind::kRnrNak:
      handle_rnr_nak(psn, aeth.value(), now);
      return;
    case wire::AethKind::kNak:
      handle_nak(psn, aeth, now);
      return;
    case wire::AethKind::kReserved:
      return;
  }
}

void Requester::handle_ack(Psn psn, wire::Aeth aeth, TimeNs now) {
  if ((psn + 1).is_before(psns_.una())) [[unlikely]] {
    return note_foreign_answer(psn, DropReason::kStaleResponse);
  }
  credits_.update(aeth);
  const bool complete = acknowledge(psn + 1, now);
  // After a probe, an answer that leaves something open says that the rest was lost.
  const bool rest_lost = repair_.close_probe() && !psns_.is_all_answered() &&
                         repair_.may_rest_be_lost(psn + 1, timer_.is_wary()) &&
                         may_repair_be_answered(now);
  // Behind a response that did not come yet.
  if (!complete) early_.note_ack(psn);
  if (!complete || rest_lost) repair_missing(now);
}

void Requester::handle_nak(Psn psn, wire::Aeth aeth, TimeNs now) {
  if (psn.is_before(psns_.una())) return note_foreign_answer(psn, DropReason::kStaleResponse);
  const bool is_wanted = aeth.value() > wire::kStatusCodes && endpoint_.obeys_marks != nullptr &&
                         endpoint_.obeys_marks->read_relaxed();
  if (aeth.value() >= wire::kNakCodes && !is_wanted) {
    endpoint_.drops->count(DropReason::kBadSyndrome);
    return;
  }
  (void)repair_.close_probe();
  if (aeth.nak_code() == wire::NakCode::kPsnSequence) endpoint_.port->sequence_naks_received.add();
  const bool complete = acknowledge(psn, now);
  retire();
  if (aeth.nak_code() == wire::NakCode::kPsnSequence) {
    if (!complete) early_.note_ack(psn - 1);
    return handle_gap(now);
  }
  // A response before the refused request went missing.
  if (!complete) return go_back(now);
  if (is_wanted) {
    queue::blame(endpoint_, "an injected rule (complete=) asks for it");
    return fail_head(static_cast<Status>(aeth.value() - wire::kStatusCodes));
  }
  Status status = Status::kRemoteOperation;
  switch (aeth.nak_code()) {
    case wire::NakCode::kInvalidRequest:
      status = Status::kRemoteInvalidRequest;
      break;
    case wire::NakCode::kRemoteAccess:
      status = Status::kRemoteAccess;
      break;
    case wire::NakCode::kInvalidRd:
      status = Status::kRemoteInvalidRd;
      break;
    default:
      break;
  }
  explain_nak(aeth.nak_code());
  fail_head(status);
}

void Requester::handle_rnr_nak(Psn psn, std::uint8_t timer, TimeNs now) {
  if (psn.is_before(psns_.una())) {
    endpoint_.drops->count(DropReason::kStaleResponse);
    return;
  }
  if (rnr_wait_.is_waiting() && psn == psns_.una()) {
    // The network repeated it: one refusal, one retry.
    endpoint_.drops->count(DropReason::kStaleResponse);
    return;
  }
  endpoint_.port->rnr_naks_received.add();
  (void)repair_.close_probe();
  const bool complete = acknowledge(psn, now);
  retire();
  if (!complete) {
    go_back(now);
    return;
  }
  if (!rnr_wait_.may_retry(reliability_.rnr_retry)) {
    explain_rnr();
    fail_head(Status::kRnrRetryExceeded);
    return;
  }
  move_cursor_to(psns_.una());
  // Who waits for a receive does not keep others waiting.
  give_up_turn();
  rnr_wait_.wait(now + wire::rnr_timer_ns(timer));
}

bool Requester::acknowledge(Psn upto, TimeNs now) {
  Psn reached = psns_.una();
  bool complete = true;
  // Most times nothing in between awaits data.
  if (responses_pending_ == 0 && psns_.una().is_before(upto)) [[likely]]
    reached = upto;
  for (std::uint32_t p = queue_.head(); p != queue_.tail() && reached.is_before(upto); ++p) {
    const SendEntry& entry = queue_.at(p);
    if (entry.is_local()) continue;
    if (!entry.numbered) break;
    const Psn end = entry.last() + 1;
    if (end.is_at_or_before(reached)) continue;
    if (entry.wants_response()) {
      complete = false;
      break;
    }
    reached = end.is_before(upto) ? end : upto;
  }
  if (reached == psns_.una()) return complete;
  const auto acknowledged = static_cast<std::uint32_t>(reached.distance_from(psns_.una()));
  psns_.acknowledge(reached);
  made_progress(acknowledged, now);
  if (psns_.cursor().is_before(psns_.una())) {
    repair_.note_kept();  // what was to be sent again has come before
    move_cursor_to(psns_.una());
  }
  rnr_wait_.renew(reliability_.rnr_retry);
  return complete;
}

// A response with data: to a READ, an atomic, FLUSH or ATOMIC WRITE.
void Requester::handle_data(const wire::PacketView& packet, TimeNs now) {
  const Psn psn = packet.bth.psn;
  if (psn.is_before(psns_.una())) {
    endpoint_.drops->count(DropReason::kStaleResponse);
    return;
  }
  if (!acknowledge(psn, now) || psns_.una() != psn) return keep_early(packet, now);
  if (take_data(packet, now) && !early_.is_empty()) [[unlikely]]
    catch_up_with_early(now);
}

// That one before it is lost is clear when so many have come behind it, or nothing more is to come.
void Requester::keep_early(const wire::PacketView& packet, TimeNs now) {
  endpoint_.drops->count(DropReason::kOutOfSequence);
  if (!early_.data().keep(packet, psns_.una(), endpoint_.mtu)) return go_back(now);
  if (early_.data().tells_of_loss() || packet.bth.psn + 1 == psns_.sent()) repair_missing(now);
}

// The gap before them is filled.
void Requester::catch_up_with_early(TimeNs now) {
  wire::EarlyPackets& data = early_.data();
  while (sending_ && !data.is_empty()) {
    const Psn psn = data.first();
    if (psn.is_before(psns_.una())) {
      (void)data.take(psns_.una() - 1);  // came twice
      continue;
    }
    if (!acknowledge(psn, now) || psns_.una() != psn) break;
    const auto packet = data.take(psn);
    if (!packet || !take_data(*packet, now)) return;
  }
  const auto ack = early_.ack();
  if (ack && sending_ && acknowledge(*ack + 1, now)) early_.forget_ack();
}

// The response that is due. False: it is not one, or has ended the queue pair.
bool Requester::take_data(const wire::PacketView& packet, TimeNs now) {
  const Psn psn = packet.bth.psn;
  retire();
  std::uint32_t position = queue_.head();
  while (position != queue_.tail() && queue_.at(position).is_local()) ++position;
  if (position == queue_.tail()) return false;
  SendEntry& entry = queue_.at(position);
  if (!entry.numbered || !entry.wants_response()) {
    // Data in answer to a SEND or WRITE: the peer is mistaken (IBTA Vol 1, 9.7.5.1.4).
    endpoint_.drops->count(DropReason::kMalformed);
    return false;
  }
  if (packet.row->aeth) credits_.update(packet.aeth());
  const Status status = take_response(entry, position, packet);
  if (status != Status::kSuccess) {
    // Local operations before it are done: they retired above.
    fail_head(status);
    return false;
  }
  const std::uint32_t ended = chunks_ended(entry, psn, packet.psns);
  reads_in_flight_ -= std::min(reads_in_flight_, ended);
  psns_.acknowledge(psn + packet.psns);
  made_progress(packet.psns, now);
  if (psns_.cursor().is_before(psns_.una())) move_cursor_to(psns_.una());
  // The answer to a probe, complete: what else was asked for is to be asked for again.
  if (ended != 0 && repair_.close_probe() && early_.data().is_empty() &&
      may_repair_be_answered(now)) {
    go_back(now);
  }
  return true;
}

// Of the requests that a READ was asked for with, how many these of its packets complete.
std::uint32_t Requester::chunks_ended(const SendEntry& entry, Psn from, std::uint32_t psns) const {
  const std::uint32_t begin = static_cast<std::uint32_t>(from.distance_from(entry.first));
  const std::uint32_t end = begin + psns;
  const std::uint32_t chunk = window_.chunk();
  const bool ends_short = end == entry.packets && end % chunk != 0;
  return end / chunk - begin / chunk + (ends_short ? 1 : 0);
}

Status Requester::take_response(SendEntry& entry, std::uint32_t position,
                                const wire::PacketView& packet) {
  const Operation operation = packet.row->operation;
  if (entry.is_atomic()) {
    if (operation != Operation::kAtomicAcknowledge || !packet.payload.empty()) {
      return Status::kBadResponse;
    }
    // Host order: the requester's buffer holds a native 64-bit value.
    const std::uint64_t original = packet.atomic_ack_eth().original;
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&original);
    return scatter(entry, position, 0, queue::Payload({bytes, sizeof original}));
  }
  if (operation != Operation::kReadResponse) return Status::kBadResponse;
  if (entry.opcode == WorkOpcode::kRead) return take_read_data(entry, position, packet);
  return packet.payload.empty() && packet.psns == 1 ? Status::kSuccess : Status::kBadResponse;
}

Status Requester::take_read_data(const SendEntry& entry, std::uint32_t position,
                                 const wire::PacketView& packet) {
  const std::uint64_t index = static_cast<std::uint32_t>(packet.bth.psn.distance_from(entry.first));
  if (index + packet.psns > entry.packets) return Status::kBadResponse;
  const std::uint64_t offset = index * endpoint_.mtu;
  const std::uint64_t expected =
      std::min<std::uint64_t>(entry.length - offset, std::uint64_t{packet.psns} * endpoint_.mtu);
  const queue::Payload data(packet);
  if (data.size() != expected) {
    queue::blame(endpoint_,
                 "a READ response of %zu bytes where %llu were due: do both ends have "
                 "the same path MTU?",
                 data.size(), static_cast<unsigned long long>(expected));
    return Status::kBadResponse;
  }
  const Status status = scatter(entry, position, offset, data);
  if (status == Status::kSuccess) endpoint_.counters.bytes_received.add(expected);
  return status;
}

Status Requester::scatter(const SendEntry& entry, std::uint32_t position, std::uint64_t offset,
                          const queue::Payload& data) {
  const queue::Sge* sge = queue_.sges(position);
  // A rendezvous reads into buffers of the tag-matching SRQ.
  const memory::DomainId domain = entry.internal ? endpoint_.srq->domain : endpoint_.domain;
  std::size_t from = 0;
  std::size_t left = data.size();
  for (std::uint32_t i = 0; i < entry.sge_count && left != 0; ++i, ++sge) {
    if (offset >= sge->length) {
      offset -= sge->length;
      continue;
    }
    const std::size_t part = std::min<std::size_t>(sge->length - offset, left);
    const memory::AccessRequest request{sge->key,
                                        domain,
                                        sge->address + offset,
                                        part,
                                        memory::kLocalWrite,
                                        endpoint_.number.value()};
    const auto pin = endpoint_.memory->pin(request);
    if (!pin.ok() || !data.place(from, part, *pin)) {
      const auto refusal = pin.ok() ? memory::Refusal::kNotMapped : pin.error();
      queue::blame(endpoint_, "cannot write what %s with wr_id %llu has brought: sg_list[%u]: %s",
                   to_string(entry.opcode).data(), static_cast<unsigned long long>(entry.id), i,
                   endpoint_.memory->explain(request, refusal).c_str());
      return Status::kLocalProtection;
    }
    from += part;
    left -= part;
    offset = 0;
  }
  return left == 0 ? Status::kSuccess : Status::kLocalLength;
}

}  // namespace verbena::requester
