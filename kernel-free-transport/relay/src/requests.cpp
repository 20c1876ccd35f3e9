// SPDX-License-Identifier: BSD-2-Clause
// Requests of the peer: which owner they are for, and when they may be passed on.
#include <algorithm>

#include "verbena/relay/relay.hpp"

namespace verbena::relay {
namespace {

// The most packets that are held. The peer repeats what finds no room.
constexpr std::size_t kHeldMax = 256;
// If no answer came to the request for a proxy, it is repeated when the peer repeats, at most this
// often.
constexpr TimeNs kAskAgainNs = 100'000'000;
// PSNs are told apart up to half their range. What is older than this is forgotten before.
constexpr std::int32_t kRemembered = 1 << 22;

bool is_data(const wire::PacketView& packet) {
  return packet.row->operation != wire::Operation::kSend &&
         packet.row->operation != wire::Operation::kWrite;
}

const wire::RxDatagram& no_datagram() {
  static const wire::RxDatagram nothing;
  return nothing;
}

}  // namespace

std::uint32_t Relay::span_of(const wire::PacketView& packet) const {
  if (packet.row->operation != wire::Operation::kReadRequest) return 1;
  const std::uint32_t length = packet.reth().length;
  // A READ that is too long is refused.
  if (length > responder::kMessageMax) return 1;
  return std::max((length + endpoint_.mtu - 1) / endpoint_.mtu, 1u);
}

void Relay::handle_request(const wire::PacketView& packet, TimeNs now) {
  end_own_replay();
  const Psn psn = packet.bth.psn;
  if (psn.is_before(replay_ ? replay_->end : next())) return repeat(packet);
  if (replay_ && !(psn == line_end())) {
    // The peer goes on, and not with what is behind the replay: the repeated request was an old
    // packet that came late, or the peer has its answer by now.
    replay_.reset();
    resume(now);
    return handle_request(packet, now);
  }
  if (psn == line_end()) {
    if (held_.empty() && admit(packet, now)) {
      take(packet);
    } else {
      hold(packet);
    }
  } else if (psn.is_after(line_end())) {
    miss(packet);
  } else {
    repeat_waiting(now);
  }
}

// Handles a packet that is held already and came again. The request for its proxy may have been
// lost.
void Relay::repeat_waiting(TimeNs now) {
  endpoint_.drops->count(DropReason::kDuplicate);
  Owner* owner = current_.owner;
  if (owner != nullptr && !owner->ready && now - owner->asked_at > kAskAgainNs) ask(*owner, now);
}

// Handles a packet before the expected one: it was taken once.
void Relay::repeat(const wire::PacketView& packet) {
  const Psn psn = packet.bth.psn;
  const bool in_current = !psn.is_before(current_.first);
  if (in_current && current_.owner == nullptr) return own_.handle_request(packet, no_datagram());
  endpoint_.drops->count(DropReason::kDuplicate);
  if (is_data(packet)) return repeat_data(packet, in_current);
  if (in_current && psn.is_after(acked_)) {
    if (current_.owner->ready) pass(packet, current_);
  } else if (!replay_ || psn.is_before(replay_->first)) {
    // Acknowledges no further than this packet: the answer to what came behind it may not have
    // reached the peer.
    tell_peer(wire::Aeth::ack(wire::kCreditsUnlimited, messages()), psn);
  }
}

void Relay::repeat_data(const wire::PacketView& packet, bool in_current) {
  const Psn psn = packet.bth.psn;
  const Psn end = psn + span_of(packet);
  const Epoch* epoch = in_current ? &current_ : epoch_of(psn);
  if (epoch == nullptr || end.is_after(in_current ? passed_ : epoch->end)) return;
  if (epoch->owner != nullptr && !epoch->owner->ready) return;
  replay_ = Replay{*epoch, psn, end};
  // The peer also repeats everything behind the packet, unless the held packets follow it directly.
  if (!held_.empty()) {
    const Psn first = wire::BthView(held_.front().data()).psn();
    if (!(first == end)) clear_line();
  }
  if (epoch->owner != nullptr) {
    pass(packet, *epoch);
  } else {
    own_.handle_request(packet, no_datagram());
  }
}

void Relay::end_own_replay() {
  if (replay_ && replay_->epoch.owner == nullptr && !own_.has_pending_answers()) replay_.reset();
}

const Relay::Epoch* Relay::epoch_of(Psn psn) const {
  for (const Epoch& epoch : history_) {
    if (!psn.is_before(epoch.first) && psn.is_before(epoch.end)) return &epoch;
  }
  return nullptr;
}

// Returns whether the packet that is expected may be taken now, and makes its owner the current
// one. As for a responder, only the first packet of a message says which SRQ it is for.
bool Relay::admit(const wire::PacketView& packet, TimeNs now) {
  if (replay_) return false;
  if (packet.row->starts_message && !is_in_message()) {
    const std::uint32_t srq = packet.xrceth().srqn;
    const bool is_own = endpoint_.shared->is_own(srq);
    const bool stays = is_own
                           ? current_.owner == nullptr
                           : current_.owner != nullptr && current_.owner->slot == Qpn(srq).slot();
    if (!stays) {
      if (!is_settled()) return false;
      if (!begin_epoch(srq, packet.bth.psn, now)) return false;
    }
  }
  return current_.owner == nullptr || current_.owner->ready;
}

bool Relay::begin_epoch(std::uint32_t srq, Psn psn, TimeNs now) {
  if (endpoint_.shared->is_own(srq)) {
    enter(nullptr, psn);
    return true;
  }
  Owner* owner = owner_of_slot(Qpn(srq).slot());
  const bool is_new = owner == nullptr;
  if (is_new) owner = make_owner(srq, psn);
  if (owner == nullptr) {
    fail(wire::NakCode::kRemoteOperational, psn, "the device has no queue pair number left");
    return false;
  }
  enter(owner, psn);
  if (is_new) ask(*owner, now);
  return true;
}

void Relay::enter(Owner* owner, Psn psn) {
  if (current_.owner != nullptr) {
    current_.owner->next = passed_ + current_.shift;
  } else {
    messages_ = own_.message_count();
  }
  current_.end = psn;
  if (current_.has_data) {
    history_.push_back(current_);
    // The peer cannot have more unanswered requests than this.
    const std::size_t bound = std::max<std::size_t>(own_.attributes().max_dest_rd_atomic, 1);
    if (history_.size() > bound) history_.pop_front();
  }
  current_ = Epoch{};
  current_.first = psn;
  current_.owner = owner;
  if (owner == nullptr) return own_.resume_at(psn, messages_);
  current_.shift = (owner->next.value() - psn.value()) & kMask24;
  current_.message_shift = (messages_ - owner->messages) & kMask24;
  acked_ = psn - 1;
  passed_ = psn;
  in_message_ = false;
}

void Relay::take(const wire::PacketView& packet) {
  gap_reported_ = false;
  current_.has_data = current_.has_data || is_data(packet);
  if (current_.owner == nullptr) {
    own_.handle_request(packet, no_datagram());
  } else {
    pass(packet, current_);
    passed_ = packet.bth.psn + span_of(packet);
    in_message_ = !is_data(packet) && !packet.row->ends_message;
  }
  forget_the_distant();
}

void Relay::forget_the_distant() {
  const Psn now = next();
  if (now.distance_from(current_.first) > kRemembered) {
    current_.first = now - kRemembered / 2;
  }
  while (!history_.empty() && now.distance_from(history_.front().end) > kRemembered) {
    history_.pop_front();
  }
}

void Relay::hold(const wire::PacketView& packet) {
  if (held_.size() >= kHeldMax) {
    endpoint_.drops->count(DropReason::kOutOfSequence);
    missing_ = true;
    return;
  }
  held_.push_back(copy_of(packet));
  held_end_ = packet.bth.psn + span_of(packet);
}

void Relay::miss(const wire::PacketView& packet) {
  if (current_.owner == nullptr && held_.empty() && !replay_) {
    return own_.handle_request(packet, no_datagram());
  }
  endpoint_.drops->count(DropReason::kOutOfSequence);
  missing_ = true;
  report_gap();
}

void Relay::clear_line() {
  missing_ = missing_ || !held_.empty();
  held_.clear();
}

// Reports a gap once, and only when nothing before it can be asked for again any more.
void Relay::report_gap() {
  if (!missing_ || !held_.empty() || !is_settled()) return;
  missing_ = false;
  if (gap_reported_) return;
  gap_reported_ = true;
  tell_peer(wire::Aeth::nak(wire::NakCode::kPsnSequence, messages()), next());
}

void Relay::resume(TimeNs now) {
  end_own_replay();
  while (!held_.empty() && !replay_) {
    const auto packet = wire::parse_packet(held_.front());
    const bool is_repeated = packet->bth.psn.is_before(next());
    if (packet->bth.psn.is_after(next())) {
      // A packet before this one is refused for now, and will come again with all behind it.
      held_.clear();
      break;
    }
    if (!is_repeated && !admit(*packet, now)) break;
    // A refusal on the way may have dropped the held packets.
    if (held_.empty()) break;
    const Bytes bytes = std::move(held_.front());
    held_.pop_front();
    if (is_repeated) {
      repeat(*packet);
    } else {
      take(*packet);
    }
    end_own_replay();
  }
  report_gap();
}

}  // namespace verbena::relay
