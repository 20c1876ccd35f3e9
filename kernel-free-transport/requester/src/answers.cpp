// SPDX-License-Identifier: BSD-2-Clause
// Handles what comes back: acknowledgements, NAKs, data. Also decides what follows if nothing comes
// back: when to go back, when to probe, when to give up.
#include "answer_data.hpp"
#include "verbena/requester/read_chunks.hpp"
#include "verbena/requester/requester.hpp"
#include "words.hpp"

namespace verbena::requester {

using queue::Status;
using wire::Operation;

// An answer to a PSN that was never sent is a sign of a peer whose PSNs do not match ours.
void Requester::note_foreign_answer(Psn psn, DropReason why) {
  endpoint_.drops->count(why);
  retries_.note_foreign_answer(psn);
}

// Returns whether an answer that goes as far as `last` may be one to what was sent.
bool Requester::is_expected(Psn last, wire::Aeth aeth) {
  if (!last.is_before(psns().sent())) {
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
  if (psns().is_all_answered()) give_up_turn();
}

void Requester::handle_piggybacked_ack(const wire::PiggybackedAck& ack, TimeNs now) {
  endpoint_.counters.packets_received.add();
  if (!is_expected(ack.psn, ack.aeth)) return;
  timer_.heard(now);
  handle_acknowledge(ack.psn, ack.aeth, now);
  retire();
  if (psns().is_all_answered()) give_up_turn();
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
  if ((psn + 1).is_before(psns().una())) [[unlikely]] {
    return note_foreign_answer(psn, DropReason::kStaleResponse);
  }
  credits_.update(aeth);
  const bool complete = acknowledge(psn + 1, now);
  // If the answer to a probe leaves something open, the rest was lost.
  const bool rest_lost = repair_.close_probe() && !psns().is_all_answered() &&
                         repair_.may_rest_be_lost(psn + 1, timer_.is_wary()) &&
                         may_repair_be_answered(now);
  // The ACK is behind a response that did not come yet.
  if (!complete) early_.note_ack(psn);
  if (!complete || rest_lost) repair_missing(now);
}

void Requester::handle_nak(Psn psn, wire::Aeth aeth, TimeNs now) {
  if (psn.is_before(psns().una())) return note_foreign_answer(psn, DropReason::kStaleResponse);
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
  // A response before the refused request is missing.
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
  explain_nak(endpoint_, queue(), aeth.nak_code());
  fail_head(status);
}

void Requester::handle_rnr_nak(Psn psn, std::uint8_t timer, TimeNs now) {
  if (psn.is_before(psns().una())) {
    endpoint_.drops->count(DropReason::kStaleResponse);
    return;
  }
  if (rnr_wait_.is_waiting() && psn == psns().una()) {
    // The network repeated the NAK: one refusal takes one retry.
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
  if (!rnr_wait_.may_retry()) {
    explain_rnr(endpoint_, queue(), rnr_wait_.count());
    fail_head(Status::kRnrRetryExceeded);
    return;
  }
  if (rnr_wait_.is_for_ever() && rnr_wait_.must_tell(psns().una(), now)) {
    explain_endless_rnr(endpoint_, queue());
  }
  tracker_.go_back_to(psns().una());
  // A queue pair that waits for a receive does not keep others waiting.
  give_up_turn();
  rnr_wait_.wait(now + wire::rnr_timer_ns(timer));
}

bool Requester::acknowledge(Psn upto, TimeNs now) {
  const auto [reached, is_complete] = tracker_.reach_of(upto);
  if (reached == psns().una()) return is_complete;
  const auto acknowledged = static_cast<std::uint32_t>(reached.distance_from(psns().una()));
  if (tracker_.acknowledge(reached)) repair_.note_kept();
  made_progress(acknowledged, now);
  rnr_wait_.renew();
  return is_complete;
}

// Handles a response with data: to a READ, an atomic, FLUSH or ATOMIC WRITE.
void Requester::handle_data(const wire::PacketView& packet, TimeNs now) {
  const Psn psn = packet.bth.psn;
  if (psn.is_before(psns().una())) {
    endpoint_.drops->count(DropReason::kStaleResponse);
    return;
  }
  if (!acknowledge(psn, now) || psns().una() != psn) return keep_early(packet, now);
  if (take_data(packet, now) && !early_.is_empty()) [[unlikely]]
    catch_up_with_early(now);
}

// A response before this one counts as lost when enough have come behind it, or no more will come.
void Requester::keep_early(const wire::PacketView& packet, TimeNs now) {
  endpoint_.drops->count(DropReason::kOutOfSequence);
  if (!early_.data().keep(packet, psns().una(), endpoint_.mtu)) return go_back(now);
  if (early_.data().tells_of_loss() || packet.bth.psn + 1 == psns().sent()) repair_missing(now);
}

// Handles the answers that came early, when the gap before them is filled.
void Requester::catch_up_with_early(TimeNs now) {
  wire::EarlyPackets& data = early_.data();
  while (sending_ && !data.is_empty()) {
    const Psn psn = data.first();
    if (psn.is_before(psns().una())) {
      (void)data.take(psns().una() - 1);  // came twice
      continue;
    }
    if (!acknowledge(psn, now) || psns().una() != psn) break;
    const auto packet = data.take(psn);
    if (!packet || !take_data(*packet, now)) return;
  }
  const auto ack = early_.ack();
  if (ack && sending_ && acknowledge(*ack + 1, now)) early_.forget_ack();
}

// Takes the response that is due. Returns false if it is not due, or has ended the queue pair.
bool Requester::take_data(const wire::PacketView& packet, TimeNs now) {
  const Psn psn = packet.bth.psn;
  retire();
  const std::uint32_t position = tracker_.oldest_with_packets();
  if (position == queue().tail()) return false;
  const SendEntry& entry = queue().at(position);
  if (!entry.numbered || !entry.wants_response()) {
    // This is data in answer to a SEND or WRITE: the peer is mistaken (IBTA Vol 1, 9.7.5.1.4).
    endpoint_.drops->count(DropReason::kMalformed);
    return false;
  }
  if (packet.row->aeth) {
    if (psn + (packet.psns - 1) == entry.last()) credits_.align(packet.aeth(), entry.message);
    credits_.update(packet.aeth());
  }
  const Status status = take_answer(endpoint_, queue(), position, packet);
  if (status != Status::kSuccess) {
    // Local operations before this request are done: they retired above.
    fail_head(status);
    return false;
  }
  const std::uint32_t ended =
      chunks_ended(entry, psn, packet.psns, chunk_of(entry, endpoint_.mtu, window_));
  tracker_.data_came(ended);
  (void)tracker_.acknowledge(psn + packet.psns);
  made_progress(packet.psns, now);
  // This completes the answer to a probe: what else was asked for is to be asked for again.
  if (ended != 0 && repair_.close_probe() && early_.data().is_empty() &&
      may_repair_be_answered(now)) {
    go_back(now);
  }
  return true;
}

// --- time and loss

void Requester::made_progress(std::uint32_t acknowledged, TimeNs now) {
  timer_.progressed(psns().una(), now);
  if (const auto flight = repair_.progressed(now, timer_.repetition_takes())) [[unlikely]]
    window_.shrink(flight);
  retries_.renew();
  window_.grow(acknowledged);
}

void Requester::repair_missing(TimeNs now) {
  if (psns().is_all_answered() || psns().ahead() == 0 || repair_.was_repeated(psns().una())) return;
  if (repair_.needs_all(psns().una())) return go_back(now);
  timer_.lost();
  timer_.repaired(now);
  repair_.want_repair(now, in_flight());
}

// The peer reports that the packet at `una` is missing. If it never arrives on this path, that uses
// up the retries, though the peer is not silent.
void Requester::handle_gap(TimeNs now) {
  if (psns().is_all_answered() || !repair_.was_repeated(psns().una())) return repair_missing(now);
  if (!may_repair_be_answered(now) || !repair_.note_gap()) return;
  if (!retries_.use_one()) {
    retries_.tell_of_gap(psns().una());
    fail_head(Status::kRetryExceeded);
    return;
  }
  repair_.allow_going_back();
  go_back(now);
}

// Goes back: everything from `una` on is to be sent again.
void Requester::go_back(TimeNs now) {
  if (psns().is_all_answered() || repair_.went_back_to(psns().una())) return;
  repair_.go_back_to(psns().una());
  timer_.lost();
  timer_.begin(now);
  window_.shrink(in_flight());
  tracker_.go_back_to(psns().una());
}

TimeNs Requester::deadline() const {
  if (!sending_) return kNever;
  if (!is_reliable()) {
    const TimeNs until = pacing_.waits_until();
    return until != 0 && tracker_.has_unsent() ? until : kNever;
  }
  if (rnr_wait_.is_waiting()) return rnr_wait_.until();
  if (psns().is_all_answered() || only_awaits_turn()) return kNever;
  return timer_.deadline();
}

void Requester::handle_timeout(TimeNs now) {
  if (!sending_) return;
  if (rnr_wait_.is_waiting()) {
    if (!rnr_wait_.is_over(now)) return;
    rnr_wait_.end();
    timer_.begin(now);
    return;
  }
  if (psns().is_all_answered() || only_awaits_turn()) return;
  if (timer_.is_retry_due(now)) return handle_silence(now);
  if (timer_.is_probe_due(now)) {
    timer_.probed(now);
    repair_.want_probe(now, in_flight());
    if (is_silenced(now)) give_up_turn();
    if (!timer_.is_silence_long(now)) return;
    endpoint_.path->inquire(now);
    if (timer_.waits_for_ever()) retries_.tell_of_endless_silence(psns().una(), timer_, now);
  }
}

// An answer is overdue: a retry counts, unless the peer was kept from answering.
void Requester::handle_silence(TimeNs now) {
  const auto peer = retries_.report_on_peer(timer_, now);
  if (const auto pause = retries_.excuse(peer, timer_, now)) return timer_.excuse(now + *pause);
  endpoint_.port->ack_timeouts.add();
  const SendEntry& oldest = queue().at(queue().head());
  queue::tell_timeout(endpoint_, to_string(oldest.opcode), oldest.id);
  const bool is_left = retries_.use_one();
  if (!is_left && !endpoint_.alternate_armed) {
    retries_.tell_of_silence(psns(), timer_, peer, now);
    fail_head(Status::kRetryExceeded);
    return;
  }
  repair_.allow_going_back();
  go_back(now);
  if (!is_left) {
    endpoint_.migration_wanted = true;
    retries_.renew();
    return;
  }
  give_up_turn();
  window_.close();
  (void)repair_.close_probe();
}

}  // namespace verbena::requester
