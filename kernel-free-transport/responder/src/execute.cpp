// SPDX-License-Identifier: BSD-2-Clause
// Carrying out requests: receives, remote memory, atomics.
#include <algorithm>

#include "verbena/queue/payload.hpp"
#include "verbena/responder/responder.hpp"

namespace verbena::responder {

using queue::AsyncEvent;
using queue::CompletionOpcode;
using queue::Payload;
using queue::Status;
using wire::NakCode;
using wire::Operation;

bool Responder::execute(const wire::PacketView& packet) {
  switch (packet.row->operation) {
    case Operation::kSend:
      return execute_send(packet);
    case Operation::kWrite:
      return execute_write(packet);
    case Operation::kReadRequest:
      return execute_read(packet);
    case Operation::kCompareSwap:
    case Operation::kFetchAdd:
      return execute_atomic(packet);
    case Operation::kAtomicWrite:
      return execute_atomic_write(packet);
    case Operation::kFlush:
      return execute_flush(packet);
    default:
      break;
  }
  return refuse(NakCode::kInvalidRequest, AsyncEvent::kQpRequestError, "not a request");
}

// A receive for a message that begins (or, for a WRITE, ends) with this packet, whose data has this
// start; false when there is none.
bool Responder::take_receive(const wire::PacketView& packet, std::span<const std::uint8_t> start) {
  queue::ReceiveQueue* receives = shared_ != nullptr ? &shared_->queue : endpoint_.receives;
  if (!receive_) [[unlikely]]
    receive_ = std::make_unique<queue::ActiveReceive>();
  tagged_ = Tagged::kNo;
  if (endpoint_.srq != nullptr && endpoint_.srq->tags &&
      packet.row->operation == Operation::kSend && take_tagged(start)) [[unlikely]] {
    return true;
  }
  if (receives == nullptr || !receives->take(*receive_)) [[unlikely]] {
    if (tagged_ == Tagged::kUnexpected) endpoint_.srq->tags->take_back_unexpected();
    return false;
  }
  receive_active_ = true;
  arrived_ = 0;
  return true;
}

// `length` bytes of the payload, from one of its bytes on, to what lies so far behind the begin of
// `sge`.
bool Responder::fill_part(const queue::Sge& sge, std::uint64_t offset, const Payload& payload,
                          std::size_t from, std::size_t length) {
  const memory::AccessRequest request{sge.key, receive_domain(),    sge.address + offset,
                                      length,  memory::kLocalWrite, endpoint_.number.value()};
  auto pin = endpoint_.memory->pin(request);
  if (!pin.ok()) [[unlikely]]
    return spoil_receive(request, pin.error());
  if (payload.place(from, length, *pin)) [[likely]]
    return true;
  return spoil_receive(request, memory::Refusal::kNotMapped);
}

// Appends to the active receive.
bool Responder::fill_receive(const Payload& payload) {
  const std::size_t size = payload.size();
  if (arrived_ + size > receive_->capacity) [[unlikely]]
    return outgrow_receive(size);
  const bool filled = receive_->sge_count == 1 && size != 0
                          ? fill_part(receive_->sges[0], arrived_, payload, 0, size)
                          : fill_list(payload);
  if (filled) [[likely]]
    arrived_ += size;
  return filled;
}

bool Responder::fill_list(const Payload& payload) {
  const std::size_t size = payload.size();
  std::uint64_t offset = arrived_;
  std::size_t from = 0;
  for (std::uint32_t i = 0; i < receive_->sge_count && from != size; ++i) {
    const queue::Sge& sge = receive_->sges[i];
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const std::size_t part = std::min<std::size_t>(sge.length - offset, size - from);
    if (!fill_part(sge, offset, payload, from, part)) return false;
    from += part;
    offset = 0;
  }
  return true;
}

bool Responder::outgrow_receive(std::size_t more) {
  const ShortText why(
      "a message of %llu bytes or more does not fit into the %llu of the receive with "
      "wr_id %llu",
      static_cast<unsigned long long>(arrived_ + more),
      static_cast<unsigned long long>(receive_->capacity),
      static_cast<unsigned long long>(receive_->id));
  fail_receive(Status::kLocalLength, why.c_str());
  refuse(NakCode::kInvalidRequest, std::nullopt, why.c_str());
  return false;
}

bool Responder::spoil_receive(const memory::AccessRequest& request, memory::Refusal refusal) {
  const ShortText why("the receive with wr_id %llu cannot be written to: %s",
                      static_cast<unsigned long long>(receive_->id),
                      endpoint_.memory->explain(request, refusal).c_str());
  fail_receive(Status::kLocalProtection, why.c_str());
  refuse(NakCode::kRemoteOperational, std::nullopt, why.c_str());
  return false;
}

// What a peer's request is for was granted, and its owner has taken it away.
void Responder::fail_receive(Status status, const char* why) {
  queue::Completion c;
  c.id = receive_->id;
  c.status = status;
  c.opcode = tagged_ == Tagged::kNo ? CompletionOpcode::kReceive : CompletionOpcode::kTagReceive;
  c.qpn = endpoint_.shown_number.value();
  c.vendor_error = static_cast<std::uint32_t>(status);
  note_slot(c);
  receive_active_ = false;
  endpoint_.port->responder_errors.add();
  queue::tell_failure(endpoint_, status, "RECV", c.id, why);
  if (!receive_cq()->push(c, false)) endpoint_.fail_for_want_of_room();
}

void Responder::complete_receive(const wire::PacketView& packet, CompletionOpcode opcode,
                                 std::uint32_t length) {
  const auto make = [&](queue::Completion& c) {
    c.id = receive_->id;
    c.opcode = opcode;
    c.byte_length = length;
    c.qpn = endpoint_.shown_number.value();
    c.source_qpn = endpoint_.shown_peer.value();
    c.source_lid = endpoint_.peer_lid;
    c.service_level = endpoint_.service_level;
    note_slot(c);
    if (packet.row->immediate) {
      c.flags = queue::kHasImmediate;
      c.immediate = packet.immediate().data;
    } else if (packet.row->ieth) {
      c.flags = queue::kHasInvalidated;
      c.immediate = packet.ieth().rkey;
    }
  };
  bool has_room = false;
  if (tagged_ == Tagged::kNo) [[likely]] {
    has_room = receive_cq()->push_made(packet.bth.solicited, make);
  } else {
    queue::Completion c;
    make(c);
    finish_tagged(c);
    has_room = receive_cq()->push(c, packet.bth.solicited);
  }
  receive_active_ = false;
  if (!has_room) endpoint_.fail_for_want_of_room();
}

bool Responder::invalidate(std::uint32_t key) {
  const auto done = endpoint_.memory->invalidate(key, remote_domain(), endpoint_.number.value());
  if (done.ok()) return true;
  const bool is_region = done.error() == memory::Refusal::kNoPermission;
  const ShortText why(
      "SEND_WITH_INV of key 0x%x: %s", key,
      is_region ? "only windows of type 2 can be invalidated" : to_string(done.error()).data());
  return refuse(NakCode::kRemoteAccess, AsyncEvent::kQpAccessError, why.c_str());
}

bool Responder::execute_send(const wire::PacketView& packet) {
  const wire::OpcodeRow& row = *packet.row;
  Payload payload(packet);
  if (row.starts_message) {
    if (!take_receive(packet, packet.payload)) [[unlikely]] {
      not_ready_ = true;
      set_nak_pending(wire::Aeth::rnr_nak(attributes_.min_rnr_timer, message_count_));
      return false;
    }
    if (tagged_ == Tagged::kEager) [[unlikely]]
      payload.skip(kTagHeaderSize);
  }
  if (tagged_ == Tagged::kRendezvous) [[unlikely]] {
    payload = Payload(std::span<const std::uint8_t>());
  }
  if (!fill_receive(payload)) return false;
  if (!row.ends_message) {
    message_ = Message::kSend;
    return true;
  }
  if (row.ieth && !invalidate(packet.ieth().rkey)) return false;
  message_ = Message::kNone;
  ++message_count_;
  endpoint_.port->received.sends.add();
  complete_receive(packet, CompletionOpcode::kReceive, static_cast<std::uint32_t>(arrived_));
  return true;
}

// What a queue pair is not set up for is an invalid request, as an opcode is that it does not know;
// an access error is of a key.
bool Responder::may_access(std::uint32_t flag, const char* what) {
  if ((endpoint_.access_flags & flag) != 0) return true;
  const ShortText why("%s, but the qp_access_flags of this queue pair lack %s (they are %s)", what,
                      memory::access_names(flag & ~endpoint_.access_flags).c_str(),
                      memory::access_names(endpoint_.access_flags).c_str());
  return refuse(NakCode::kInvalidRequest, AsyncEvent::kQpRequestError, why.c_str());
}

bool Responder::execute_write(const wire::PacketView& packet) {
  const wire::OpcodeRow& row = *packet.row;
  const auto range = [this](std::uint64_t offset, std::uint64_t length) {
    return memory::AccessRequest{write_.rkey, remote_domain(),      write_.va + offset,
                                 length,      memory::kRemoteWrite, endpoint_.number.value()};
  };
  memory::Pin target;
  if (row.starts_message) {
    if (!may_access(memory::kRemoteWrite, "RDMA WRITE")) return false;
    write_ = packet.reth();
    arrived_ = 0;
    if (write_.length != 0) {
      auto whole = endpoint_.memory->pin(range(0, write_.length));
      if (!whole.ok()) return refuse_access("RDMA WRITE", range(0, write_.length), whole.error());
      // The only packet writes all of it, with nothing to wait for.
      if (row.ends_message && !row.immediate) target = std::move(*whole);
    }
  }
  const Payload payload(packet);
  const std::uint64_t end = arrived_ + payload.size();
  if (end > write_.length || (row.ends_message && end != write_.length)) {
    return refuse(NakCode::kInvalidRequest, AsyncEvent::kQpRequestError,
                  "the packets of an RDMA WRITE do not add up to its length");
  }
  if (row.immediate && !take_receive_of_write(packet)) return false;
  if (payload.size() != 0) {
    if (!target) {
      auto part = endpoint_.memory->pin(range(arrived_, payload.size()));
      if (part.ok()) target = std::move(*part);
    }
    if (!target || !payload.place(0, payload.size(), target)) [[unlikely]] {
      return refuse_access("an RDMA WRITE that is arriving", range(arrived_, payload.size()),
                           memory::Refusal::kNotMapped);
    }
    arrived_ = end;
  }
  if (!row.ends_message) {
    message_ = Message::kWrite;
    return true;
  }
  message_ = Message::kNone;
  ++message_count_;
  endpoint_.port->received.writes.add();
  if (row.immediate) complete_receive_of_write(packet);
  return true;
}

bool Responder::take_receive_of_write(const wire::PacketView& packet) {
  const std::uint64_t so_far = arrived_;
  if (!take_receive(packet, {})) {
    not_ready_ = true;
    set_nak_pending(wire::Aeth::rnr_nak(attributes_.min_rnr_timer, message_count_));
    return false;
  }
  arrived_ = so_far;
  return true;
}

void Responder::complete_receive_of_write(const wire::PacketView& packet) {
  complete_receive(packet, CompletionOpcode::kReceiveWriteImmediate, write_.length);
}

bool Responder::room_for_new() const {
  return responses_.count_new() < std::max<std::size_t>(attributes_.max_dest_rd_atomic, 1);
}

bool Responder::room_for_repeated() const {
  return responses_.size() < 2 * std::max<std::size_t>(attributes_.max_dest_rd_atomic, 1);
}

// What answers a new request, to be filled.
Responder::Response& Responder::answer(const wire::PacketView& packet) {
  Response& r = responses_.push();
  r.first = packet.bth.psn;
  r.operation = packet.row->operation;
  r.domain = remote_domain();
  r.message = ++message_count_;
  return r;
}

// The same of one that is not carried out twice.
void Responder::answer_and_save(const wire::PacketView& packet, std::uint64_t original) {
  SavedAtomic& saved = saved_[saved_next_];
  saved.psn = packet.bth.psn;
  saved.original = original;
  saved.operation = packet.row->operation;
  saved.valid = true;
  saved_next_ = (saved_next_ + 1) % saved_.size();
  answer(packet).original = original;
}

bool Responder::execute_read(const wire::PacketView& packet) {
  if (!may_access(memory::kRemoteRead, "RDMA READ")) return false;
  const wire::Reth reth = packet.reth();
  if (reth.length > kMessageMax) {
    const ShortText why("an RDMA READ of %u bytes is longer than max_msg_sz", reth.length);
    return refuse(NakCode::kInvalidRequest, AsyncEvent::kQpRequestError, why.c_str());
  }
  if (attributes_.max_dest_rd_atomic == 0 || !room_for_new()) return refuse_one_more();
  if (reth.length != 0) {
    const memory::AccessRequest request{reth.rkey,   remote_domain(),     reth.va,
                                        reth.length, memory::kRemoteRead, endpoint_.number.value()};
    const auto pin = endpoint_.memory->pin(request);
    if (!pin.ok()) return refuse_access("RDMA READ", request, pin.error());
  }
  endpoint_.port->received.reads.add();
  Response& r = answer(packet);
  r.packets = std::max((reth.length + endpoint_.mtu - 1) / endpoint_.mtu, 1u);
  r.key = reth.rkey;
  r.address = reth.va;
  r.length = reth.length;
  return true;
}

// Another READ or atomic operation.
bool Responder::refuse_one_more() {
  const ShortText why(
      "more READs and atomics are outstanding than max_dest_rd_atomic = %u allows "
      "(the peer's max_rd_atomic must not be more)",
      unsigned{attributes_.max_dest_rd_atomic});
  return refuse(NakCode::kInvalidRequest, AsyncEvent::kQpRequestError, why.c_str());
}

bool Responder::execute_atomic(const wire::PacketView& packet) {
  if (!may_access(memory::kRemoteAtomic, "an atomic operation")) return false;
  const wire::AtomicEth atomic = packet.atomic_eth();
  if (attributes_.max_dest_rd_atomic == 0 || !room_for_new()) return refuse_one_more();
  if ((atomic.va & 7) != 0) {
    return refuse(NakCode::kInvalidRequest, AsyncEvent::kQpRequestError,
                  ShortText("the address 0x%llx of an atomic operation is not a multiple of 8",
                            static_cast<unsigned long long>(atomic.va))
                      .c_str());
  }
  const memory::AccessRequest request{atomic.rkey, remote_domain(),       atomic.va,
                                      8,           memory::kRemoteAtomic, endpoint_.number.value()};
  auto pin = endpoint_.memory->pin(request);
  std::uint64_t original = 0;
  const bool done =
      pin.ok() && (packet.row->operation == Operation::kCompareSwap
                       ? pin->compare_swap(atomic.compare, atomic.swap_or_add, &original)
                       : pin->fetch_add(atomic.swap_or_add, &original));
  if (!done) {
    return refuse_access("an atomic operation", request,
                         pin.ok() ? memory::Refusal::kNotMapped : pin.error());
  }
  endpoint_.port->received.atomics.add();
  answer_and_save(packet, original);
  return true;
}

// Eight bytes that become visible as one (annex A19).
bool Responder::execute_atomic_write(const wire::PacketView& packet) {
  if (!may_access(memory::kRemoteWrite, "ATOMIC WRITE")) return false;
  const wire::Reth reth = packet.reth();
  if (packet.payload.size() != 8 || reth.length != 8 || (reth.va & 7) != 0 ||
      attributes_.max_dest_rd_atomic == 0 || !room_for_new()) {
    return refuse(NakCode::kInvalidRequest, AsyncEvent::kQpRequestError,
                  "an ATOMIC WRITE has 8 aligned bytes, within max_dest_rd_atomic");
  }
  const memory::AccessRequest request{reth.rkey, remote_domain(),      reth.va,
                                      8,         memory::kRemoteWrite, endpoint_.number.value()};
  auto pin = endpoint_.memory->pin(request);
  if (!pin.ok() || !pin->write(0, packet.payload.data(), 8)) {
    return refuse_access("ATOMIC WRITE", request,
                         pin.ok() ? memory::Refusal::kNotMapped : pin.error());
  }
  endpoint_.port->received.writes.add();
  answer_and_save(packet, 0);
  return true;
}

// All earlier writes are in memory already; what is left is to check the range and to answer.
bool Responder::execute_flush(const wire::PacketView& packet) {
  const wire::Feth feth = packet.feth();
  const wire::Reth reth = packet.reth();
  const std::uint32_t need =
      (feth.placement_type & wire::kFlushPersistence ? memory::kFlushPersistent : 0u) |
      (feth.placement_type & wire::kFlushGlobalVisibility ? memory::kFlushGlobal : 0u);
  if (need == 0 || feth.selectivity > 1 || !room_for_new()) {
    return refuse(NakCode::kInvalidRequest, AsyncEvent::kQpRequestError,
                  "FLUSH with a placement or selectivity that does not exist");
  }
  if ((endpoint_.access_flags & need) != need) return may_access(need, "FLUSH");
  const bool whole = feth.selectivity == 1;
  const memory::AccessRequest request{
      reth.rkey, remote_domain(), reth.va, whole ? 0 : reth.length, need, endpoint_.number.value()};
  auto pin = endpoint_.memory->pin(request);
  if (!pin.ok()) return refuse_access("FLUSH", request, pin.error());
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  answer_and_save(packet, 0);
  return true;
}

}  // namespace verbena::responder
