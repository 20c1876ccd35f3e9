// SPDX-License-Identifier: BSD-2-Clause
// The life of a relay, its owners and its line of packets out.
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
  if (had_owners) endpoint_.events->on_stand_ins_released(endpoint_.number);
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

// Nothing of what was taken waits for an answer.
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

// Null when the device has no number left for its line.
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
  queue::StandIn wanted;
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
  endpoint_.events->on_stand_in_wanted(wanted);
}

void Relay::connect(Qpn line, const wire::Destination& destination, Qpn stand_in, TimeNs now) {
  Owner* owner = owner_of_line(line);
  if (owner == nullptr) return;
  owner->destination = destination;
  owner->stand_in = stand_in;
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

}  // namespace verbena::relay
