// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/responder/responder.hpp"

#include <algorithm>
#include <utility>

namespace verbena::responder {

using queue::Status;

Responder::Responder(queue::Endpoint& endpoint) : endpoint_(endpoint) {}

bool Responder::ResponseLine::truncate(Psn psn) {
  while (!empty()) {
    const Response& last = items_.back();
    if (last.first.is_before(psn)) {
      if ((last.first + last.packets).is_at_or_before(psn)) return false;
      if (last.sent <= static_cast<std::uint32_t>(psn.distance_from(last.first))) return true;
    }
    items_.pop_back();
    if (begin_ == items_.size()) clear();
  }
  return false;
}

std::size_t Responder::ResponseLine::count_new() const {
  std::size_t n = 0;
  for (std::size_t i = begin_; i < items_.size(); ++i) n += items_[i].repeated ? 0 : 1;
  return n;
}

void Responder::ResponseLine::compact() {
  items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(begin_));
  begin_ = 0;
}

void Responder::start(Psn expected) {
  expected_ = expected;
  message_count_ = told_count_ = 0;
  message_ = Message::kNone;
  dead_ = is_in_step_ = false;
  foreign_psns_ = 0;
  forget_early();
}

void Responder::resume_at(Psn expected, std::uint32_t message_count) {
  expected_ = expected;
  message_count_ = told_count_ = message_count & kMask24;
  message_ = Message::kNone;
  gap_reported_ = not_ready_ = false;
  forget_early();
}

void Responder::set_attributes(const ResponderAttributes& attributes, bool resize) {
  attributes_ = attributes;
  if (!resize) return;
  const std::size_t bound = std::max<std::size_t>(attributes.max_dest_rd_atomic, 1);
  responses_.reserve(2 * bound);
  saved_.assign(bound, {});
  saved_next_ = 0;
}

void Responder::reset() {
  message_ = Message::kNone;
  message_count_ = told_count_ = 0;
  give_up_receive();
  responses_.clear();
  std::fill(saved_.begin(), saved_.end(), SavedAtomic{});
  nak_pending_ = ack_pending_ = ack_urgent_ = gap_reported_ = not_ready_ = dead_ = false;
  forget_early();
  shared_ = nullptr;
}

// A shared queue outlives this.
void Responder::give_up_receive() {
  if (!std::exchange(receive_active_, false)) return;
  queue::Completion c;
  note_slot(c);
  if (c.slots != 0) (shared_ != nullptr ? &shared_->queue : endpoint_.receives)->give_back();
}

void Responder::flush() {
  std::uint32_t flushed = 0;
  std::uint64_t first = 0;
  const auto push = [&](std::uint64_t id) {
    if (flushed++ == 0) first = id;
    queue::Completion c;
    c.id = id;
    note_slot(c);
    c.status = Status::kFlushed;
    c.opcode = queue::CompletionOpcode::kReceive;
    c.qpn = endpoint_.shown_number.value();
    c.vendor_error = static_cast<std::uint32_t>(Status::kFlushed);
    queue::CompletionQueue* cq = receive_cq();
    if (cq != nullptr) cq->push(c, false);
  };
  if (receive_active_) {
    push(receive_->id);
    receive_active_ = false;
  }
  tagged_ = Tagged::kNo;
  message_ = Message::kNone;
  forget_early();
  // A NAK that is still pending goes out, and what is before it.
  if (!nak_pending_) responses_.clear();
  ack_pending_ = ack_urgent_ = false;
  if (endpoint_.receives != nullptr && !endpoint_.receives->is_shared()) {
    while (const auto id = endpoint_.receives->take_id()) push(*id);
  }
  if (flushed != 0) queue::tell_flushed_receives(endpoint_, first, flushed);
}

void Responder::handle_request(const wire::PacketView& packet, const wire::RxDatagram& datagram) {
  endpoint_.counters.packets_received.add(packet.psns);
  if (is_reliable(endpoint_.transport)) {
    handle_reliable(packet);
  } else {
    handle_unconnected(packet, datagram);
  }
}

void Responder::forget(const queue::SharedReceive* shared) {
  if (shared_ != shared) return;
  shared_ = nullptr;
  message_ = Message::kNone;
  receive_active_ = false;
}

// Receives belong to the domain of their queue, remote memory to that of the queue pair (XRC: of
// the SRQ that the request names).
memory::DomainId Responder::receive_domain() const {
  if (shared_ != nullptr) return shared_->domain;
  return endpoint_.srq != nullptr ? endpoint_.srq->domain : endpoint_.domain;
}

memory::DomainId Responder::remote_domain() const {
  return shared_ != nullptr ? shared_->domain : endpoint_.domain;
}

void Responder::note_slot(queue::Completion& completion) const {
  // A tagged buffer had none.
  if (tagged_ == Tagged::kEager || tagged_ == Tagged::kRendezvous) return;
  const queue::SharedReceive* srq = shared_ != nullptr ? shared_ : endpoint_.srq;
  const bool goes_there = srq != nullptr && srq->cq != nullptr;
  completion.account = goes_there ? srq->account : endpoint_.receive_account;
  completion.slots = 1;
}

queue::CompletionQueue* Responder::receive_cq() const {
  const queue::SharedReceive* srq = shared_ != nullptr ? shared_ : endpoint_.srq;
  return srq != nullptr && srq->cq != nullptr ? srq->cq : endpoint_.receive_cq;
}

}  // namespace verbena::responder
