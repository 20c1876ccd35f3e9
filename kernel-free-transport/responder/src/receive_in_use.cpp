// SPDX-License-Identifier: BSD-2-Clause
#include "verbena/responder/receive_in_use.hpp"

#include <algorithm>
#include <utility>

namespace verbena::responder {

using queue::CompletionOpcode;
using queue::Payload;
using queue::Status;

bool ReceiveInUse::forget(const queue::SharedReceive* shared) {
  if (shared_ != shared) return false;
  shared_ = nullptr;
  is_active_ = false;
  return true;
}

bool ReceiveInUse::take(const wire::PacketView& packet, std::span<const std::uint8_t> start) {
  if (!receive_) [[unlikely]]
    receive_ = std::make_unique<queue::ActiveReceive>();
  tagged_.clear();
  const bool may_be_tagged = endpoint_.srq != nullptr && endpoint_.srq->tags &&
                             packet.row->operation == wire::Operation::kSend;
  const bool is_matched = may_be_tagged && tagged_.match(start, *endpoint_.srq->tags, *receive_);
  if (!is_matched && (receives() == nullptr || !receives()->take(*receive_))) [[unlikely]] {
    if (may_be_tagged) tagged_.take_back(*endpoint_.srq->tags);
    return false;
  }
  is_active_ = true;
  filled_ = 0;
  return true;
}

bool ReceiveInUse::fill(const wire::PacketView& packet, std::optional<Failed>& failed) {
  Payload payload(packet);
  if (!tagged_.is_plain()) [[unlikely]]
    tagged_.strip(payload, packet.row->starts_message);
  return append(payload, failed);
}

bool ReceiveInUse::append(const Payload& payload, std::optional<Failed>& failed) {
  const std::size_t size = payload.size();
  if (filled_ + size > receive_->capacity) [[unlikely]]
    return outgrow(size, failed);
  const bool is_done = receive_->sge_count == 1 && size != 0
                           ? put(receive_->sges[0], filled_, payload, 0, size, failed)
                           : append_to_list(payload, failed);
  if (is_done) [[likely]]
    filled_ += size;
  return is_done;
}

// Appends to a receive that has none or several buffers.
bool ReceiveInUse::append_to_list(const Payload& payload, std::optional<Failed>& failed) {
  const std::size_t size = payload.size();
  std::uint64_t offset = filled_;
  std::size_t from = 0;
  for (std::uint32_t i = 0; i < receive_->sge_count && from != size; ++i) {
    const queue::Sge& sge = receive_->sges[i];
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const std::size_t part = std::min<std::size_t>(sge.length - offset, size - from);
    if (!put(sge, offset, payload, from, part, failed)) return false;
    from += part;
    offset = 0;
  }
  return true;
}

// Puts `length` bytes of the payload, from byte `from` on, at `offset` in the buffer `sge`.
// Receives belong to the domain of their queue.
bool ReceiveInUse::put(const queue::Sge& sge, std::uint64_t offset, const Payload& payload,
                       std::size_t from, std::size_t length, std::optional<Failed>& failed) {
  const memory::DomainId domain = srq() != nullptr ? srq()->domain : endpoint_.domain;
  const memory::AccessRequest request{
      sge.key, domain, sge.address + offset, length, memory::kLocalWrite, endpoint_.number.value()};
  auto pin = endpoint_.memory->pin(request);
  if (!pin.ok()) [[unlikely]]
    return spoil(request, pin.error(), failed);
  if (payload.place(from, length, *pin)) [[likely]]
    return true;
  return spoil(request, memory::Refusal::kNotMapped, failed);
}

bool ReceiveInUse::outgrow(std::size_t more, std::optional<Failed>& failed) {
  const ShortText why(
      "a message of %llu bytes or more does not fit into the %llu of the receive with "
      "wr_id %llu",
      static_cast<unsigned long long>(filled_ + more),
      static_cast<unsigned long long>(receive_->capacity),
      static_cast<unsigned long long>(receive_->id));
  fail(Status::kLocalLength, why.c_str());
  failed = Failed{wire::NakCode::kInvalidRequest, why};
  return false;
}

bool ReceiveInUse::spoil(const memory::AccessRequest& request, memory::Refusal refusal,
                         std::optional<Failed>& failed) {
  const ShortText why("the receive with wr_id %llu cannot be written to: %s",
                      static_cast<unsigned long long>(receive_->id),
                      endpoint_.memory->explain(request, refusal).c_str());
  fail(Status::kLocalProtection, why.c_str());
  failed = Failed{wire::NakCode::kRemoteOperational, why};
  return false;
}

void ReceiveInUse::fail(Status status, const char* why) {
  queue::Completion c;
  c.id = receive_->id;
  c.status = status;
  c.opcode = tagged_.is_plain() ? CompletionOpcode::kReceive : CompletionOpcode::kTagReceive;
  c.qpn = endpoint_.shown_number.value();
  c.vendor_error = static_cast<std::uint32_t>(status);
  note_slot(c);
  is_active_ = false;
  endpoint_.port->responder_errors.add();
  queue::tell_failure(endpoint_, status, "RECV", c.id, why);
  if (!completion_queue()->push(c, false)) endpoint_.fail_for_want_of_room();
}

bool ReceiveInUse::complete(const wire::PacketView& packet, CompletionOpcode opcode,
                            std::uint32_t length, const Sender& sender) {
  const auto make = [&](queue::Completion& c) {
    c.id = receive_->id;
    c.opcode = opcode;
    c.byte_length = length;
    c.qpn = endpoint_.shown_number.value();
    c.source_qpn = sender.qpn.value();
    c.source_lid = sender.lid;
    c.service_level = sender.service_level;
    if (sender.has_grh) c.flags = queue::kHasGrh;
    note_slot(c);
    if (packet.row->immediate) {
      c.flags |= queue::kHasImmediate;
      c.immediate = packet.immediate().data;
    } else if (packet.row->ieth) {
      c.flags |= queue::kHasInvalidated;
      c.immediate = packet.ieth().rkey;
    }
  };
  bool has_room = false;
  if (tagged_.is_plain()) [[likely]] {
    has_room = completion_queue()->push_made(packet.bth.solicited, make);
  } else {
    queue::Completion c;
    make(c);
    tagged_.finish(c, *receive_, endpoint_);
    has_room = completion_queue()->push(c, packet.bth.solicited);
  }
  is_active_ = false;
  return has_room;
}

void ReceiveInUse::flush() {
  std::uint32_t flushed = 0;
  std::uint64_t first = 0;
  const auto flush_next = [&](std::uint64_t id) {
    if (flushed++ == 0) first = id;
    flush_one(id);
  };
  if (std::exchange(is_active_, false)) flush_next(receive_->id);
  tagged_.clear();
  if (endpoint_.receives != nullptr && !endpoint_.receives->is_shared()) {
    queue::ActiveReceive next;
    while (endpoint_.receives->take(next)) flush_next(next.id);
  }
  if (flushed != 0) queue::tell_flushed_receives(endpoint_, first, flushed);
}

void ReceiveInUse::flush_one(std::uint64_t id) {
  queue::Completion c;
  c.id = id;
  note_slot(c);
  c.status = Status::kFlushed;
  c.opcode = CompletionOpcode::kReceive;
  c.qpn = endpoint_.shown_number.value();
  c.vendor_error = static_cast<std::uint32_t>(Status::kFlushed);
  if (queue::CompletionQueue* cq = completion_queue()) cq->push(c, false);
}

// Gives the receive's slot back, because a shared queue outlives the queue pair.
void ReceiveInUse::give_up() {
  if (std::exchange(is_active_, false)) {
    queue::Completion c;
    note_slot(c);
    if (c.slots != 0) receives()->give_back();
  }
}

void ReceiveInUse::note_slot(queue::Completion& completion) const {
  // A tagged buffer has no slot.
  if (tagged_.is_matched()) return;
  const bool goes_there = srq() != nullptr && srq()->cq != nullptr;
  completion.account = goes_there ? srq()->account : endpoint_.receive_account;
  completion.slots = 1;
}

queue::CompletionQueue* ReceiveInUse::completion_queue() const {
  return srq() != nullptr && srq()->cq != nullptr ? srq()->cq : endpoint_.receive_cq;
}

}  // namespace verbena::responder
