// SPDX-License-Identifier: BSD-2-Clause
// The life of a relay, its owners, its packets on their way out, and answers.
#include "verbena/relay/relay.hpp"

#include <algorithm>
#include <cstring>

namespace verbena::relay {

Relay::Relay(queue::Endpoint& endpoint, responder::Responder& own)
    : endpoint_(endpoint), own_(own) {}

void Relay::start(Psn expected) {
  current_ = Epoch{};
  current_.first = expected;
  messages_ = 0;
}

void Relay::stop() {
  const bool had_owners = !owners_.empty();
  for (const auto& owner : owners_) retired_lines_.push_back(owner->line);
  owners_.clear();
  current_ = Epoch{};
  current_.first = own_.expected_psn();
  history_.clear();
  replay_.reset();
  held_.clear();
  missing_ = gap_reported_ = in_message_ = false;
  std::erase_if(out_, [](const Outgoing& packet) { return !packet.to_peer; });
  if (had_owners) endpoint_.events->on_proxies_released(endpoint_.number);
}

void Relay::reset() {
  stop();
  out_.clear();
}

void Relay::change_attributes(TimeNs now) {
  for (const auto& owner : owners_) {
    owner->ready = false;
    ask(*owner, now);
  }
}

Psn Relay::expected_psn() const { return next(); }

Psn Relay::line_end() const {
  if (!held_.empty()) return held_end_;
  return replay_ ? replay_->end : next();
}

std::uint32_t Relay::messages() const {
  return current_.owner != nullptr ? messages_ : own_.message_count();
}

// Returns whether nothing that was taken waits for an answer.
bool Relay::is_settled() const {
  if (replay_) return false;
  return current_.owner != nullptr ? acked_ + 1 == passed_ : !own_.has_pending_answers();
}

bool Relay::is_in_message() const {
  return current_.owner != nullptr ? in_message_ : own_.is_in_message();
}

Relay::Owner* Relay::owner_of_slot(std::uint32_t slot) const {
  const auto found = std::find_if(owners_.begin(), owners_.end(),
                                  [&](const auto& owner) { return owner->slot == slot; });
  return found != owners_.end() ? found->get() : nullptr;
}

Relay::Owner* Relay::owner_of_line(Qpn line) const {
  const auto found = std::find_if(owners_.begin(), owners_.end(),
                                  [&](const auto& owner) { return owner->line == line; });
  return found != owners_.end() ? found->get() : nullptr;
}

// Returns null if the device has no number left for the owner's line.
Relay::Owner* Relay::make_owner(std::uint32_t srq, Psn psn) {
  for (const Qpn line : retired_lines_) endpoint_.shared->close_line(line);
  retired_lines_.clear();
  const auto line = endpoint_.shared->open_line(endpoint_.number);
  if (!line) return nullptr;
  auto owner = std::make_unique<Owner>();
  owner->slot = Qpn(srq).slot();
  owner->line = *line;
  owner->srq = srq;
  owner->next = psn;
  owners_.push_back(std::move(owner));
  return owners_.back().get();
}

void Relay::ask(Owner& owner, TimeNs now) {
  owner.asked_at = now;
  const responder::ResponderAttributes& own = own_.attributes();
  queue::ProxyQp wanted;
  wanted.receiver = endpoint_.number;
  wanted.line = owner.line;
  wanted.srq = owner.srq;
  wanted.xrc_domain = own.xrc_domain;
  wanted.first = owner.next;
  wanted.mtu = endpoint_.mtu;
  wanted.access_flags = endpoint_.access_flags;
  wanted.max_dest_rd_atomic = own.max_dest_rd_atomic;
  wanted.min_rnr_timer = own.min_rnr_timer;
  wanted.peer = endpoint_.peer;
  wanted.peer_lid = endpoint_.peer_lid;
  wanted.service_level = endpoint_.service_level;
  endpoint_.events->on_proxy_wanted(wanted);
}

void Relay::connect(Qpn line, const wire::Destination& destination, Qpn proxy, TimeNs now) {
  Owner* owner = owner_of_line(line);
  if (owner == nullptr) return;
  owner->destination = destination;
  owner->proxy = proxy;
  owner->ready = true;
  resume(now);
}

void Relay::refuse(Qpn line, TimeNs now) {
  Owner* owner = owner_of_line(line);
  if (owner == nullptr) return;
  const char* const why = "no process has the XRC SRQ of this number in this domain, or no more";
  if (replay_ && replay_->epoch.owner == owner) {
    return fail(wire::NakCode::kInvalidRequest, replay_->first, why);
  }
  const bool is_current = current_.owner == owner;
  if (is_current && (!is_settled() || !held_.empty())) {
    return fail(wire::NakCode::kInvalidRequest, acked_ + 1, why);
  }
  if (is_current) enter(nullptr, passed_);
  forget(*owner);
  resume(now);
}

void Relay::forget(Owner& owner) {
  retired_lines_.push_back(owner.line);
  std::erase_if(history_, [&](const Epoch& epoch) { return epoch.owner == &owner; });
  std::erase_if(owners_, [&](const auto& known) { return known.get() == &owner; });
}

bool Relay::poll_transmit(wire::TxBatch& out) {
  while (!out_.empty()) {
    const Outgoing& packet = out_.front();
    std::uint8_t* at = out.begin(packet.bytes.size());
    if (at == nullptr) return true;
    std::memcpy(at, packet.bytes.data(), packet.bytes.size());
    out.commit(packet.bytes.size(), packet.destination);
    endpoint_.counters.packets_sent.add();
    out_.pop_front();
  }
  return false;
}

Relay::Bytes Relay::copy_of(const wire::PacketView& packet) {
  Bytes bytes(packet.size());
  packet.copy_to(bytes.data());
  return bytes;
}

// --- answers of the proxies --------------------------------------------------------------------

// The packets that change their numbers on the way are rewritten here as well.

namespace {

// The most packets on their way out. A packet that finds no room is lost, as on any network.
constexpr std::size_t kOutMax = 2048;

bool is_nak(const wire::PacketView& packet) {
  return packet.row->operation == wire::Operation::kAcknowledge &&
         packet.aeth().kind() != wire::AethKind::kAck;
}

// Returns whether a NAK ends the connection. One with a status (wire::kStatusCodes) ends only the
// peer's request.
bool is_fatal(wire::Aeth aeth) {
  return aeth.kind() == wire::AethKind::kNak && aeth.nak_code() != wire::NakCode::kPsnSequence &&
         aeth.value() < wire::kStatusCodes;
}

std::optional<queue::AsyncEvent> event_for(wire::NakCode code) {
  switch (code) {
    case wire::NakCode::kRemoteAccess:
      return queue::AsyncEvent::kQpAccessError;
    case wire::NakCode::kInvalidRequest:
      return queue::AsyncEvent::kQpRequestError;
    default:
      return std::nullopt;
  }
}

}  // namespace

void Relay::handle_answer(Qpn line, const wire::PacketView& packet,
                          const wire::RxDatagram& datagram, TimeNs now) {
  const auto drop = [this](DropReason why) { endpoint_.drops->count(why); };
  if (packet.row->transport != wire::WireTransport::kXrc || !packet.row->response) {
    return drop(DropReason::kWrongTransport);
  }
  Owner* owner = owner_of_line(line);
  if (owner == nullptr || !owner->ready) return drop(DropReason::kStaleResponse);
  if (!(datagram.source == owner->destination.address)) return drop(DropReason::kWrongPeer);
  if (packet.row->aeth && packet.aeth().kind() == wire::AethKind::kReserved) {
    return drop(DropReason::kBadSyndrome);
  }
  endpoint_.counters.packets_received.add();
  if (replay_ && replay_->epoch.owner == owner) {
    const Psn psn = packet.bth.psn - replay_->epoch.shift;
    const bool is_acknowledgement =
        packet.row->operation == wire::Operation::kAcknowledge && !is_nak(packet);
    if (!is_acknowledgement && !psn.is_before(replay_->first) && psn.is_before(replay_->end)) {
      return handle_replayed(packet, psn, now);
    }
  }
  if (current_.owner != owner) return drop(DropReason::kStaleResponse);
  const Psn psn = packet.bth.psn - current_.shift;
  if (is_nak(packet)) return handle_nak(packet, psn);
  if (psn.is_before(current_.first) || !psn.is_before(passed_)) {
    return drop(DropReason::kStaleResponse);
  }
  const bool is_news = psn.is_after(acked_);
  if (is_news) acked_ = psn;
  std::uint32_t count = messages_;
  if (packet.row->aeth) {
    count = (packet.aeth().msn + current_.message_shift) & kMask24;
    if (is_news) {
      owner->messages = packet.aeth().msn;
      messages_ = count;
    }
  }
  // The peer has no use for an acknowledgement that says nothing new. If an acknowledgement
  // overtook the repeated answer, the peer would take that for the loss of the answer.
  const bool is_stale = !is_news && packet.row->operation == wire::Operation::kAcknowledge;
  const bool overtakes = replay_ && !psn.is_before(replay_->first);
  if (!is_stale && !overtakes) forward(packet, psn, count);
  resume(now);
}

// Handles data that was asked for again, or the NAK that says why there is none.
void Relay::handle_replayed(const wire::PacketView& packet, Psn psn, TimeNs now) {
  if (is_nak(packet)) {
    const wire::Aeth aeth = packet.aeth();
    if (!is_fatal(aeth)) {
      forward(packet, psn, messages());
      replay_.reset();
      return resume(now);
    }
    if (current_.owner != nullptr && psn.is_after(acked_)) acked_ = psn - 1;
    forward(packet, psn, messages());
    queue::blame(endpoint_, "the process that owns the addressed SRQ refused a repeated request");
    endpoint_.fail(event_for(aeth.nak_code()));
    return;
  }
  if (replay_->epoch.owner == current_.owner && !psn.is_before(current_.first) &&
      psn.is_after(acked_)) {
    acked_ = psn;
  }
  forward(packet, psn, messages());
  if (psn + 1 == replay_->end) replay_.reset();
  resume(now);
}

void Relay::handle_nak(const wire::PacketView& packet, Psn psn) {
  if (!psn.is_after(acked_) || psn.is_after(passed_)) {
    return endpoint_.drops->count(DropReason::kStaleResponse);
  }
  const wire::Aeth aeth = packet.aeth();
  acked_ = psn - 1;
  current_.owner->messages = aeth.msn;
  messages_ = (aeth.msn + current_.message_shift) & kMask24;
  if (is_fatal(aeth)) {
    forward(packet, psn, messages_);
    queue::blame(endpoint_,
                 "the process that owns the addressed SRQ refused PSN 0x%06x with NAK %s",
                 psn.value(), to_string(aeth.nak_code()).data());
    endpoint_.fail(event_for(aeth.nak_code()));
    return;
  }
  // The peer begins again at this PSN, or before.
  held_.clear();
  missing_ = false;
  if (!replay_) forward(packet, psn, messages_);
}

void Relay::fail(wire::NakCode code, Psn psn, const char* why) {
  queue::blame(endpoint_,
               "the request with PSN 0x%06x of the peer 0x%06x is refused with NAK %s: %s",
               psn.value(), endpoint_.peer.value(), to_string(code).data(), why);
  tell_peer(wire::Aeth::nak(code, messages()), psn);
  held_.clear();
  replay_.reset();
  endpoint_.fail(event_for(code));
}

// Passes a packet to the proxy, with the mark of an injected fault. Each packet requests an
// acknowledgement, because the next owner waits for it.
void Relay::pass(const wire::PacketView& packet, const Epoch& epoch) {
  if (out_.size() >= kOutMax) return;
  endpoint_.counters.packets_received.add();
  endpoint_.counters.bytes_received.add(packet.payload.size());
  Outgoing outgoing{copy_of(packet), epoch.owner->destination, false};
  wire::Bth bth = wire::Bth::read_from(packet.start);
  bth.dest_qp = epoch.owner->proxy;
  bth.psn = bth.psn + epoch.shift;
  bth.ack_request = true;
  bth.migreq = true;
  bth.write_to(outgoing.bytes.data());
  wire::Bth::mark(outgoing.bytes.data(), wire::BthView(packet.start).mark());
  out_.push_back(std::move(outgoing));
}

void Relay::forward(const wire::PacketView& packet, Psn psn, std::uint32_t messages) {
  if (out_.size() >= kOutMax) return;
  Outgoing outgoing{copy_of(packet), endpoint_.destination, true};
  wire::Bth bth = wire::Bth::read_from(packet.start);
  bth.dest_qp = endpoint_.peer;
  bth.psn = psn;
  bth.migreq = endpoint_.migrated;
  bth.write_to(outgoing.bytes.data());
  if (packet.row->aeth) {
    wire::Aeth aeth = packet.aeth();
    aeth.msn = messages;
    aeth.write_to(outgoing.bytes.data() + packet.row->aeth_at);
  }
  endpoint_.counters.bytes_sent.add(packet.payload.size());
  out_.push_back(std::move(outgoing));
}

// Sends an answer of the receiver's own.
void Relay::tell_peer(wire::Aeth aeth, Psn psn) {
  if (out_.size() >= kOutMax) return;
  const wire::OpcodeRow& row = wire::row_of(wire::Opcode::kXrcAcknowledge);
  wire::PacketHeaders headers;
  headers.bth.migreq = endpoint_.migrated;
  headers.bth.pkey = endpoint_.pkey;
  headers.bth.dest_qp = endpoint_.peer;
  headers.bth.psn = psn;
  headers.aeth = aeth;
  Outgoing outgoing{Bytes(row.header_bytes), endpoint_.destination, true};
  wire::write_headers(static_cast<std::uint8_t>(wire::Opcode::kXrcAcknowledge), headers,
                      outgoing.bytes.data());
  out_.push_back(std::move(outgoing));
}

}  // namespace verbena::relay
